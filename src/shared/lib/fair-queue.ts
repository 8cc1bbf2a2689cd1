/**
 * Work that waits, taken in fair turns.
 *
 * Each item belongs to an owner and is about a target. Owners take turns, and so do the targets of one owner: somebody
 * with ten thousand items waiting delays another's first item by one turn. An owner and a target each have a bound on how
 * many of their items are taken and not yet given back; what is over it waits without being looked at again, so taking and
 * giving back cost the same however much waits.
 */

export interface FairQueueOptions<T> {
  ownerOf(item: T): string
  targetOf(item: T): string
  /** Items of one owner, and about one target, that may be out at the same time. */
  perOwner: number
  perTarget: number
}

export interface FairQueue<T> {
  push(item: T): void
  /** The next item, now out; undefined when nothing waits or all that waits is over a bound. */
  take(): T | undefined
  /** An item that was taken is done with. */
  giveBack(item: T): void
  readonly waiting: number
  readonly out: number
  /** How much waits for which bound; `turn` is what only waits for the taker. Costs a walk over the lanes. */
  waitingFor(): Record<WaitReason, number>
  /** Items that are first in their lane; the one that waits longest is among them. */
  heads(): Iterable<T>
}

export type WaitReason = 'turn' | 'owner' | 'target'

/** One owner's items about one target, first come first served. */
interface Lane<T> {
  owner: Owner<T>
  target: Party<T>
  items: T[]
}

/** Of an owner the lanes that may be taken from, in turn; of a target the lanes that wait for it. */
interface Party<T> {
  name: string
  out: number
  waiting: number
  lanes: Set<Lane<T>>
}

interface Owner<T> extends Party<T> {
  /** All of its lanes, by target. */
  byTarget: Map<string, Lane<T>>
}

export function createFairQueue<T>({ ownerOf, targetOf, perOwner, perTarget }: FairQueueOptions<T>): FairQueue<T> {
  const owners = new Map<string, Owner<T>>()
  const targets = new Map<string, Party<T>>()
  /** Owners whose turn may come: below their bound, with a lane to take from. A set keeps the order of entry. */
  const turns = new Set<Owner<T>>()
  let waiting = 0
  let out = 0

  function laneOf(item: T): Lane<T> {
    const [ownerName, targetName] = [ownerOf(item), targetOf(item)]
    const party = (name: string): Party<T> => ({ name, out: 0, waiting: 0, lanes: new Set() })
    const owner = foundOrMade(owners, ownerName, () => ({ ...party(ownerName), byTarget: new Map() }))
    return foundOrMade(owner.byTarget, targetName, () => {
      return { owner, target: foundOrMade(targets, targetName, () => party(targetName)), items: [] }
    })
  }

  function* allLanes(): Iterable<Lane<T>> {
    for (const { byTarget } of owners.values()) yield* byTarget.values()
  }

  function enter(lane: Lane<T>): void {
    lane.owner.lanes.add(lane)
    if (lane.owner.out < perOwner) turns.add(lane.owner)
  }

  function nextLane(owner: Owner<T>): Lane<T> | undefined {
    for (const lane of owner.lanes) {
      owner.lanes.delete(lane)
      if (lane.target.out < perTarget) return lane
      lane.target.lanes.add(lane)
    }
    return undefined
  }

  function forgetIdle(parties: Map<string, unknown>, party: Party<T>): void {
    if (party.out === 0 && party.waiting === 0) parties.delete(party.name)
  }

  return {
    push(item) {
      const lane = laneOf(item)
      waiting++
      lane.owner.waiting++
      lane.target.waiting++
      if (lane.items.push(item) === 1) enter(lane)
    },

    take() {
      for (const owner of turns) {
        turns.delete(owner)
        const lane = nextLane(owner)
        if (!lane) continue
        const item = lane.items.shift() as T
        waiting--
        owner.waiting--
        lane.target.waiting--
        out++
        owner.out++
        lane.target.out++
        if (lane.items.length > 0) owner.lanes.add(lane)
        else owner.byTarget.delete(lane.target.name)
        if (owner.lanes.size > 0 && owner.out < perOwner) turns.add(owner)
        return item
      }
      return undefined
    },

    giveBack(item) {
      const owner = owners.get(ownerOf(item))
      const target = targets.get(targetOf(item))
      if (!owner || !target) throw new Error('an item is given back that was not taken')
      out--
      owner.out--
      target.out--
      const woken = [...target.lanes]
      target.lanes.clear()
      for (const lane of woken) enter(lane)
      if (owner.lanes.size > 0) turns.add(owner)
      forgetIdle(owners, owner)
      forgetIdle(targets, target)
    },

    get waiting() {
      return waiting
    },
    get out() {
      return out
    },

    waitingFor() {
      const counts = { turn: 0, owner: 0, target: 0 }
      for (const { owner, target, items } of allLanes()) {
        const reason = target.out >= perTarget ? 'target' : owner.out >= perOwner ? 'owner' : 'turn'
        counts[reason] += items.length
      }
      return counts
    },

    *heads() {
      for (const { items } of allLanes()) if (items[0] !== undefined) yield items[0]
    },
  }
}

function foundOrMade<V>(map: Map<string, V>, key: string, make: () => V): V {
  const found = map.get(key)
  if (found !== undefined) return found
  const made = make()
  map.set(key, made)
  return made
}
