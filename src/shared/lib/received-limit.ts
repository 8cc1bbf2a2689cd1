/** A bound on all that is read for one HTTP request, whatever part of the answer it stands in. */

import type { ClientRequest } from 'node:http'

/**
 * Calls `tooMuch` once the answer has more than `maxBytes`. The parser bounds heads, but neither what stands before a status
 * line nor how many informational responses come.
 */
export function limitReceived(request: ClientRequest, maxBytes: number, tooMuch: () => void): void {
  request.on('socket', (socket) => {
    let received = 0
    const count = ({ length }: Buffer) => {
      received += length
      if (received > maxBytes) tooMuch()
    }
    socket.on('data', count)
    // The next request may have the same connection.
    request.on('close', () => socket.removeListener('data', count))
  })
}
