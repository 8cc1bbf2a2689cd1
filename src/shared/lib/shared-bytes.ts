/** Bytes in memory that all threads share, for replies that many may ask for and take slowly: none holds a copy. */
export function sharedBytes(content: string | Uint8Array): Uint8Array {
  const bytes = Buffer.from(content)
  const shared = new Uint8Array(new SharedArrayBuffer(bytes.length))
  shared.set(bytes)
  return shared
}
