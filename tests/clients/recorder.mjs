// What a client really sends: a proxy in front of the server that notes method, path, credentials and body.
import http from 'node:http';
import { once } from 'node:events';

/**
 * Calls `talk(root)` with the address of a proxy to the server at `root`, and resolves to the requests that passed:
 * {method, path, authorization, body}, body parsed, or null without one.
 */
export async function record(root, talk) {
  const requests = [];
  const proxy = http.createServer((incoming, outgoing) => {
    const forwarded = http.request(root + incoming.url, { method: incoming.method, headers: incoming.headers },
        (answer) => {
          outgoing.writeHead(answer.statusCode, answer.headers);
          answer.pipe(outgoing);
        });
    forwarded.on('error', (error) => outgoing.destroy(error));
    const parts = [];
    incoming.on('data', (part) => {
      parts.push(part);
      forwarded.write(part);
    });
    incoming.on('end', () => {
      const body = Buffer.concat(parts).toString();
      requests.push({ method: incoming.method, path: incoming.url, authorization: incoming.headers.authorization,
        body: body === '' ? null : JSON.parse(body) });
      forwarded.end();
    });
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  try {
    await talk(`http://127.0.0.1:${proxy.address().port}`);
  } finally {
    proxy.close();
    proxy.closeAllConnections();
  }
  return requests;
}
