/** One signature through the signer's socket, with one request under way and with many. */

import { measureSigner } from '../signer/measure.ts'
import { SignerPlace } from '../signer/place.ts'
import type { MicroGroup } from './micro.ts'

const IN_FLIGHT = [1, 16]
const NAME = 'signer-round-trip'

export const SIGNER: MicroGroup = {
  names: [NAME],
  summary: 'a signature of a signer with a P-256 key file; batch: requests under way',
  async run(wanted, { milliseconds, signal }, done) {
    if (!wanted(NAME)) return
    const place = new SignerPlace('')
    try {
      const signer = await place.start({ type: 'P-256', sessions: undefined }, signal)
      try {
        for (const inFlight of IN_FLIGHT) {
          const durationMs = Math.max(milliseconds, 1000)
          const figures = await measureSigner(signer, { inFlight, warmupMs: milliseconds / 2, durationMs, signal })
          const operations = Math.round((figures.perSecond * durationMs) / 1000)
          await done({
            name: NAME,
            batch: inFlight,
            own: figures.clientMicros,
            other: figures.signerMicros,
            operations,
          })
        }
      } finally {
        await signer.stop()
      }
    } finally {
      place.remove()
    }
  },
}
