/**
 * Waiting items, taken in fair turns.
 *
 * Each item has an owner and a target. Owners take turns, and so do the targets of one owner. Ten thousand items of one
 * owner delay the first item of another by one turn.
 *
 * Owner and target each bound the items that are taken and not given back. A lane over a bound is skipped until an item
 * returns. So the cost of `take` and `giveBack` does not grow with the number of items.
 */

export interface FairQueueOptions<T> {
  ownerOf(item: T): string
  targetOf(item: T): string
  /** Most items of one owner, and of one target, that may be out at the same time. */
  perOwner: number
  perTarget: number
}

export type WaitReason = 'turn' | 'owner' | 'target'

/** One owner's items about one target, in the order of arrival. */
interface Lane<T> {
  owner: Owner<T>
  target: Party<T>
  items: T[]
}

/** An owner or a target. An owner's `lanes` are those to take from; a target's `lanes` wait for the target. */
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

export class FairQueue<T> {
  readonly #options: FairQueueOptions<T>
  readonly #owners = new Map<string, Owner<T>>()
  readonly #targets = new Map<string, Party<T>>()
  /** Owners below their bound with a lane to take from, in the order of their turns. */
  readonly #turns = new Set<Owner<T>>()
  #waiting = 0
  #out = 0

  constructor(options: FairQueueOptions<T>) {
    this.#options = options
  }

  get waiting(): number {
    return this.#waiting
  }

  /** Number of items that are taken and not given back. */
  get out(): number {
    return this.#out
  }

  push(item: T): void {
    const lane = this.#laneOf(item)
    this.#waiting++
    lane.owner.waiting++
    lane.target.waiting++
    if (lane.items.push(item) === 1) this.#enter(lane)
  }

  /** @returns the next item, now out; undefined when none waits or all are over a bound */
  take(): T | undefined {
    for (const owner of this.#turns) {
      this.#turns.delete(owner)
      const lane = this.#nextLane(owner)
      if (lane) return this.#takeFrom(lane)
    }
    return undefined
  }

  /** Ends the use of an item that was taken. */
  giveBack(item: T): void {
    const owner = this.#owners.get(this.#options.ownerOf(item))
    const target = this.#targets.get(this.#options.targetOf(item))
    if (!owner || !target) throw new Error('an item is given back that was not taken')
    this.#out--
    owner.out--
    target.out--
    const woken = [...target.lanes]
    target.lanes.clear()
    for (const lane of woken) this.#enter(lane)
    if (owner.lanes.size > 0) this.#turns.add(owner)
    forgetIdle(this.#owners, owner)
    forgetIdle(this.#targets, target)
  }

  /** Counts waiting items by reason; `turn` means that no bound stops them. Walks over all lanes. */
  waitingFor(): Record<WaitReason, number> {
    const { perOwner, perTarget } = this.#options
    const counts = { turn: 0, owner: 0, target: 0 }
    for (const { owner, target, items } of this.#lanes()) {
      const reason = target.out >= perTarget ? 'target' : owner.out >= perOwner ? 'owner' : 'turn'
      counts[reason] += items.length
    }
    return counts
  }

  /** The first item of each lane; the oldest waiting item is among them. */
  *heads(): Iterable<T> {
    for (const { items } of this.#lanes()) if (items[0] !== undefined) yield items[0]
  }

  *#lanes(): Iterable<Lane<T>> {
    for (const { byTarget } of this.#owners.values()) yield* byTarget.values()
  }

  #laneOf(item: T): Lane<T> {
    const [ownerName, targetName] = [this.#options.ownerOf(item), this.#options.targetOf(item)]
    const party = (name: string): Party<T> => ({ name, out: 0, waiting: 0, lanes: new Set() })
    const owner = getOrCreate(this.#owners, ownerName, () => ({ ...party(ownerName), byTarget: new Map() }))
    return getOrCreate(owner.byTarget, targetName, () => {
      return { owner, target: getOrCreate(this.#targets, targetName, () => party(targetName)), items: [] }
    })
  }

  #enter(lane: Lane<T>): void {
    lane.owner.lanes.add(lane)
    if (lane.owner.out < this.#options.perOwner) this.#turns.add(lane.owner)
  }

  #nextLane(owner: Owner<T>): Lane<T> | undefined {
    for (const lane of owner.lanes) {
      owner.lanes.delete(lane)
      if (lane.target.out < this.#options.perTarget) return lane
      lane.target.lanes.add(lane)
    }
    return undefined
  }

  #takeFrom(lane: Lane<T>): T {
    const { owner, target, items } = lane
    const item = items.shift() as T
    this.#waiting--
    owner.waiting--
    target.waiting--
    this.#out++
    owner.out++
    target.out++
    if (items.length > 0) owner.lanes.add(lane)
    else owner.byTarget.delete(target.name)
    if (owner.lanes.size > 0 && owner.out < this.#options.perOwner) this.#turns.add(owner)
    return item
  }
}

function forgetIdle<P extends { name: string; out: number; waiting: number }>(parties: Map<string, P>, party: P): void {
  if (party.out === 0 && party.waiting === 0) parties.delete(party.name)
}

function getOrCreate<V>(map: Map<string, V>, key: string, create: () => V): V {
  const found = map.get(key)
  if (found !== undefined) return found
  const created = create()
  map.set(key, created)
  return created
}
