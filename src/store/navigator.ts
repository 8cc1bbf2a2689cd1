/**
 * The global `navigator` of Node.js 21 and later, for Node.js 20. Without it pg makes a Response to
 * detect Cloudflare Workers, which loads Node's HTTP client: 50 ms of CPU and 5 MB a thread.
 */

if (!('navigator' in globalThis)) {
  const [major] = process.versions.node.split('.')
  Object.defineProperty(globalThis, 'navigator', { value: { userAgent: `Node.js/${major}` }, configurable: true })
}
