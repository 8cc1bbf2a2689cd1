/** SQL of a random sample of all certificates `c`, for what is counted in a part and scaled. */

import * as z from 'zod/v4'
import { type CommonQueryMethods, rowsOf, sql } from '../../store/slonik.ts'

const Estimate = z.object({ rows: z.float64() })

/** Octets of a fingerprint that choose; shares of 10⁻¹⁴ differ. */
const OCTETS = 6

/**
 * A condition that some `rows` certificates fulfil, along certificates_fingerprint: fingerprints are as good as random.
 * @returns also their share: 1 where the table has no more
 */
export async function certificateSample(db: CommonQueryMethods, rows: number) {
  const { rows: all } = await db.one(rowsOf(Estimate)`
    SELECT greatest(reltuples, 0)::float8 AS rows FROM pg_class WHERE oid = 'certificates'::regclass`)
  const share = Math.min(1, rows / Math.max(1, all))
  if (share === 1) return { share, isInSample: sql.fragment`true` }
  const from = Math.random() * (1 - share)
  const isInSample = sql.fragment`
    sha256(c.der) >= ${sql.binary(fingerprintAt(from))} AND sha256(c.der) < ${sql.binary(fingerprintAt(from + share))}`
  return { share, isInSample }
}

/** @param share of all fingerprints that are below */
function fingerprintAt(share: number): Buffer {
  const octets = Buffer.alloc(OCTETS)
  octets.writeUIntBE(Math.min(Math.floor(share * 2 ** (8 * OCTETS)), 2 ** (8 * OCTETS) - 1), 0, OCTETS)
  return octets
}
