/** Assigns certificates to the parts of a sharded CRL, and names the parts in paths. */

/** A complete list is the only part. */
export const COMPLETE = { shards: 1, shard: 0 } as const

/**
 * Remainder of the last two octets, which are as good as random in any serial number.
 * `store/crl-store.ts` selects pages by the same rule.
 */
export function shardOf(serialNumber: Buffer, shards: number): number {
  return serialNumber.readUInt16BE(serialNumber.length - 2) % shards
}

/**
 * Last part of a list's path: `default` for a complete one, `default/16-3` for the fourth of
 * sixteen.
 */
export function crlName(issuerId: string, { shards, shard }: { shards: number; shard: number }): string {
  // The name contains the count, so that certificates keep their list when the count changes.
  return shards === 1 ? issuerId : `${issuerId}/${shards}-${shard}`
}
