/** Requests to an OpenID Connect provider: its own authorities, a bound for what it answers, no redirect. */

import { readFileSync } from 'node:fs'
import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { createSecureContext } from 'node:tls'

/** Metadata and a set of keys have some ten kilobytes. */
const MOST_BYTES = 512 * 1024

interface FetchOptions {
  method: string
  headers: Record<string, string>
  body?: unknown
  signal?: AbortSignal
}

/** @param caFile undefined for the authorities of the system. @throws Error when it cannot be read */
export function providerFetch(caFile: string | undefined) {
  const tls = caFile === undefined ? {} : { secureContext: createSecureContext({ ca: readFileSync(caFile) }) }
  return (url: string, { method, headers, body, signal }: FetchOptions): Promise<Response> =>
    new Promise((resolve, reject) => {
      const options = { method, headers, ...(signal && { signal }), ...tls }
      const request = url.startsWith('https:') ? requestHttps(url, options) : requestHttp(url, options)
      request.on('error', reject)
      request.on('response', (answer) => {
        const chunks: Buffer[] = []
        let size = 0
        answer.on('error', reject)
        answer.on('data', (chunk: Buffer) => {
          size += chunk.length
          if (size > MOST_BYTES) request.destroy(new Error(`the answer has more than ${MOST_BYTES} bytes`))
          else chunks.push(chunk)
        })
        answer.on('end', () => {
          const fields = Object.entries(answer.headers).map(
            ([name, value]) => [name, String(value)] as [string, string],
          )
          const status = answer.statusCode ?? 502
          const content = status === 204 || status === 304 ? null : Buffer.concat(chunks)
          // The reason of a failure names the address.
          resolve(Object.defineProperty(new Response(content, { status, headers: fields }), 'url', { value: url }))
        })
      })
      request.end(body === undefined || body === null ? undefined : String(body))
    })
}
