// What the clients' tests embed and rank.
export const kTexts = ['nginx: small, powerful and scalable web and proxy server', 'déjà vu — 日本語 🌲', 'a'];
export const kQuery = 'a web server';
export const kDocuments = [
  'gimp: GNU image manipulation program',
  'nginx: small, powerful and scalable web and proxy server',
  'large feline of forests in most of Asia',
  'lighttpd: fast webserver with minimal memory footprint',
];
