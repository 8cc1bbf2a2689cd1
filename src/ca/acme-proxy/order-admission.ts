/**
 * Which upstream orders may take a step at the moment: a bound on open orders, and one order at a time for a
 * DNS record.
 *
 * Kept in memory by the leading instance. A claim that is not renewed lapses, as when the lead has
 * moved to another instance.
 */

export interface OrderAdmission {
  /** Whether a further order may be open; true again for one that is. */
  admit(id: string): boolean
  /** Claims all of these records, or none. Others delete a record by its name alone. */
  claim(id: string, records: readonly string[]): boolean
  /** @returns whether it was open */
  end(id: string): boolean
}

interface Open {
  seenAt: number
  records: readonly string[]
}

export function createOrderAdmission(maxOpen: number, lapseMs: number, now: () => number = Date.now): OrderAdmission {
  const open = new Map<string, Open>()
  const holders = new Map<string, string>()

  function end(id: string): boolean {
    for (const record of open.get(id)?.records ?? []) if (holders.get(record) === id) holders.delete(record)
    return open.delete(id)
  }

  function touch(id: string): Open {
    const entry = open.get(id) ?? { seenAt: 0, records: [] }
    entry.seenAt = now()
    // Behind the others, so that the first entry is the one seen longest ago.
    open.delete(id)
    open.set(id, entry)
    return entry
  }

  function endLapsed(): void {
    for (const [id, { seenAt }] of open) {
      if (now() - seenAt <= lapseMs) return
      end(id)
    }
  }

  return {
    end,
    admit(id) {
      endLapsed()
      if (!open.has(id) && open.size >= maxOpen) return false
      touch(id)
      return true
    },
    claim(id, records) {
      endLapsed()
      const isFree = (record: string) => (holders.get(record) ?? id) === id
      const entry = touch(id)
      if (!records.every(isFree)) return false
      entry.records = records
      for (const record of records) holders.set(record, id)
      return true
    },
  }
}
