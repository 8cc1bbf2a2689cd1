/** Posts JSON to a receiver that the operator has named. */

/** A receiver chooses it. */
const MAX_ANSWER_BYTES = 65_536

export interface PostAnswer {
  status: number
  retryAfter: string | null
  /** The first 64 KiB. */
  text: string
}

/**
 * @param what stands for the URL in errors, because a URL may hold a secret
 * @throws Error when there is no answer
 */
export async function postJson(what: string, url: string, body: string, signal: AbortSignal): Promise<PostAnswer> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'User-Agent': 'chancery' },
      body,
      redirect: 'error',
      signal,
    })
    return {
      status: response.status,
      retryAfter: response.headers.get('Retry-After'),
      text: await beginningOf(response.body),
    }
  } catch (error) {
    if (signal.aborted) throw new Error(`${what} does not answer in time`)
    const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException
    throw new Error(`${what} is not reachable${code === undefined ? '' : `: ${code}`}`)
  }
}

async function beginningOf(body: ReadableStream<Uint8Array> | null): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  if (body)
    for await (const chunk of body) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes >= MAX_ANSWER_BYTES) break
    }
  return Buffer.concat(chunks).subarray(0, MAX_ANSWER_BYTES).toString()
}
