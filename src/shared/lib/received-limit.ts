/** Bounds the octets received for one HTTP request: status line, heads and body together. */

import type { ClientRequest } from 'node:http'

/**
 * Calls `tooMuch` once more than `maxBytes` have arrived. Node's parser bounds heads, but not the octets before a
 * status line nor the number of informational responses.
 */
export function limitReceived(request: ClientRequest, maxBytes: number, tooMuch: () => void): void {
  request.on('socket', (socket) => {
    let received = 0
    const count = ({ length }: Buffer) => {
      received += length
      if (received > maxBytes) tooMuch()
    }
    socket.on('data', count)
    // The next request may use the same connection.
    request.on('close', () => socket.removeListener('data', count))
  })
}
