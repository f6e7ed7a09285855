// Loaded before a test (node --import): finds the SDKs where `npm ci` put them, in the build directory, because Node
// looks beside the file that imports them. ESPALIER_CLIENT_MODULES is the folder that holds node_modules.
import { registerHooks } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ours = path.dirname(fileURLToPath(import.meta.url)) + path.sep;
const installed = pathToFileURL(path.join(process.env.ESPALIER_CLIENT_MODULES, 'importer.mjs')).href;

registerHooks({
  resolve(specifier, context, next) {
    const from = context.parentURL?.startsWith('file:') ? fileURLToPath(context.parentURL) : '';
    const isPackage = !/^(\.|\/|[a-z]+:)/.test(specifier);
    return next(specifier, isPackage && from.startsWith(ours) ? { ...context, parentURL: installed } : context);
  },
});
