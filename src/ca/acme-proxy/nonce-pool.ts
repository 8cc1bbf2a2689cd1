/** Nonces that the upstream has given (RFC 8555 §6.5): a bounded number, the newest first. */

/** As many as requests at the same time; an older nonce may have expired. */
const MAX_NONCES = 64

export interface NoncePool {
  take(): string | undefined
  put(nonce: string | undefined): void
}

export function createNoncePool(): NoncePool {
  const nonces: string[] = []
  return {
    take: () => nonces.pop(),
    put(nonce) {
      if (nonce === undefined || nonce === '' || !/^[\w-]{1,512}$/.test(nonce)) return
      if (nonces.push(nonce) > MAX_NONCES) nonces.shift()
    },
  }
}
