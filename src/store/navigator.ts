/**
 * The global `navigator` of Node.js 21 and later, for Node.js 20. Without one pg asks a Response whether this is a
 * Cloudflare Worker, and for that Node loads its HTTP client: 50 ms of CPU and 5 MB in every thread.
 */

if (!('navigator' in globalThis)) {
  const [major] = process.versions.node.split('.')
  Object.defineProperty(globalThis, 'navigator', { value: { userAgent: `Node.js/${major}` }, configurable: true })
}
