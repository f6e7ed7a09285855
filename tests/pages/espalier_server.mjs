// Runs `espalier serve` for the tests: a process with its own port. The binary comes from ESPALIER_BINARY, the
// model's folder from ESPALIER_MINI_MODEL.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const SLOWDOWN = Number(process.env.ESPALIER_TEST_SLOWDOWN ?? "1");

/** Milliseconds of a fast build, as this build may take them. */
export const timeLimit = (milliseconds) => milliseconds * SLOWDOWN;

/** This process's environment without options for the server, which would change what is tested. */
function environment() {
  const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) =>
    !name.startsWith("ESPALIER_") || name === "ESPALIER_ISA"));
  return { ...clean, ESPALIER_DTYPE: "f32" };
}

/** A server that is ready: {url, stop()}. stop() fails unless it ends with exit code 0. */
export async function startServer(...options) {
  const child = spawn(process.env.ESPALIER_BINARY,
    ["serve", "--port", "0", "--model", process.env.ESPALIER_MINI_MODEL, ...options],
    { env: environment(), stdio: ["ignore", "ignore", "pipe"] });
  const log = [];
  const ended = new Promise((resolve) => child.on("exit", (code, signal) => resolve(code ?? signal)));
  const url = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`not ready in time:\n${log.join("\n")}`)), timeLimit(60_000));
    createInterface({ input: child.stderr }).on("line", (line) => {
      log.push(line);
      const ready = line.match(/ is ready at (http:\S+)\s*$/);
      if (!ready) return;
      clearTimeout(timer);
      resolve(ready[1]);
    });
    ended.then((code) => reject(new Error(`the server ended with ${code}:\n${log.join("\n")}`)));
  });
  return {
    url,
    async stop() {
      child.kill("SIGTERM");
      const code = await ended;
      if (code !== 0) throw new Error(`the server ended with ${code}:\n${log.join("\n")}`);
    },
  };
}
