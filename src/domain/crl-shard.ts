/** Which part of a sharded CRL a certificate belongs to, and how the parts are named in paths. */

/** A complete list is the one part of one. */
export const COMPLETE = { shards: 1, shard: 0 } as const

/**
 * The remainder of the last two octets, which are as good as random whatever the source of serial numbers. The pages of
 * `store/crl-store.ts` are selected by the same rule.
 */
export function shardOf(serialNumber: Buffer, shards: number): number {
  return serialNumber.readUInt16BE(serialNumber.length - 2) % shards
}

/** Last part of the path of a list: `default` for a complete one, `default/16-3` for the fourth of sixteen. */
export function crlName(issuerId: string, { shards, shard }: { shards: number; shard: number }): string {
  // The count is part of the name: certificates keep their list when the count is changed.
  return shards === 1 ? issuerId : `${issuerId}/${shards}-${shard}`
}
