/**
 * Nonces of `nonce.store: database`: each instance accepts, once, the nonces of every other.
 *
 * A nonce is a character for the key epoch and a sealed block (`shared/protocol/nonce.ts`). Its counter is the thread's
 * fixed field, 3 bytes, and a count, 3 bytes (the construction of NIST SP 800-38D, 8.2.1). The count may wrap: the time
 * is redeemed too, and no thread issues 2^24 nonces in a tenth of a second.
 */

import { randomBytes } from 'node:crypto'
import { sharedWork } from '../shared/lib/caching.ts'
import { createNonceSeal, NONCE_BATCH, type NonceSeal, type Nonces } from '../shared/protocol/nonce.ts'
import {
  type ConsumedNonce,
  EPOCH_LEAD_SECONDS,
  type NonceAuditStore,
  type NonceEpoch,
  type NonceStore,
} from '../store/nonce-store.ts'

export interface SharedNonces extends Nonces {
  /** Reads the current epochs from the database. */
  refresh(): Promise<void>
}

interface OpenEpoch extends NonceEpoch {
  seal: NonceSeal
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
const markOf = (epochId: number) => ALPHABET.charAt(epochId % ALPHABET.length)
const COUNT_LIMIT = 2 ** 24

/** Long, so that few epochs live, and each can be emptied before its table is used again. */
const MIN_EPOCH_LIFE_SECONDS = 60

/**
 * How long nonces are issued under one epoch. It is at least a nonce's lifetime, so that all
 * expire before the epoch after the next begins.
 */
export function epochLifeSeconds(expirySeconds: number): number {
  return Math.max(expirySeconds, MIN_EPOCH_LIFE_SECONDS) + EPOCH_LEAD_SECONDS
}

const KEY_BYTES = 32

export const makeNonceKey = () => randomBytes(KEY_BYTES)

/** Bounds the statements that invented nonces cause. A retrying client waits this long at most. */
const LOOKS = { intervalMs: 50, mostWaiting: 1_024 }

/** After a restore an epoch's number may have another key. */
const isSame = (one: NonceEpoch, other: NonceEpoch) =>
  one.id === other.id && one.madeAtMs === other.madeAtMs && one.key.equals(other.key)

/** @throws when the database cannot be asked, or no epoch has been made yet */
export async function openSharedNonces(store: NonceStore, expirySeconds: number): Promise<SharedNonces> {
  const fixedField = await store.nextFixedField()
  let epochs = new Map<string, OpenEpoch>()
  let count = 0
  let batch: string[] = []
  let batchMadeMs = 0
  let batchSeal: NonceSeal | undefined

  async function refresh(): Promise<void> {
    const known = [...epochs.values()]
    const found = (await store.epochs()).map((epoch): [string, OpenEpoch] => {
      const seal =
        known.find((one) => isSame(one, epoch))?.seal ?? createNonceSeal(epoch.key, epoch.madeAtMs, expirySeconds)
      return [markOf(epoch.id), { ...epoch, seal }]
    })
    epochs = new Map(found)
  }

  /** A crash of the database leaves no epoch. A front creates the next without the supervisor. */
  async function renew(): Promise<void> {
    await refresh()
    if (epochs.size > 0) return
    await store.renew(makeNonceKey, epochLifeSeconds(expirySeconds))
    await refresh()
  }

  /** The newest epoch that has begun by the local clock, else the newest of all. */
  function issuing(nowMs: number): OpenEpoch | undefined {
    let newest: OpenEpoch | undefined
    let current: OpenEpoch | undefined
    for (const epoch of epochs.values()) {
      newest = epoch
      if (epoch.activeFromMs <= nowMs) current = epoch
    }
    return current ?? newest
  }

  function makeBatch(nowMs: number, epoch: OpenEpoch): void {
    batch = epoch.seal.sealBatch(fixedField * COUNT_LIMIT + count, nowMs).map((sealed) => markOf(epoch.id) + sealed)
    count = (count + NONCE_BATCH) % COUNT_LIMIT
    batchMadeMs = nowMs
    batchSeal = epoch.seal
  }

  await refresh()
  if (epochs.size === 0) throw new Error('the database has no key for nonces yet')

  return {
    refresh,
    issue(nowMs) {
      const epoch = issuing(nowMs)
      // Without an epoch this nonce is refused, and the badNonce reply brings a valid one.
      if (!epoch) return markOf(0) + 'A'.repeat(22)
      if (batch.length === 0 || batchSeal !== epoch.seal || nowMs - batchMadeMs > epoch.seal.batchLifeMs)
        makeBatch(nowMs, epoch)
      return batch.pop() as string
    },
    open(nonce, nowMs) {
      const epoch = epochs.get(nonce.charAt(0))
      const unsealed = epoch?.seal.unseal(nonce.slice(1), nowMs)
      return epoch && unsealed && { redeem: () => store.redeem({ epochId: epoch.id, ...unsealed }) }
    },
    ensureCurrent: sharedWork(renew, LOOKS),
  }
}

/** The record of used nonces (`nonce.audit_consumed`), written in batches behind the requests. A crash loses what waits, and so does a database that stays away. */
const MAX_BATCH = 5_000
/** Ten seconds of a busy thread. */
const MAX_WAITING = 20_000

export class NonceAudit {
  readonly #store: Pick<NonceAuditStore, 'record'>
  readonly #onLost: (count: number) => void
  #waiting: ConsumedNonce[] = []
  #lost = 0

  constructor(store: Pick<NonceAuditStore, 'record'>, onLost: (count: number) => void) {
    this.#store = store
    this.#onLost = onLost
  }

  /** Wraps nonces so that each redeemed one is noted. */
  noting(nonces: Nonces): Nonces {
    return {
      ...nonces,
      open: (nonce, nowMs) => {
        const opened = nonces.open(nonce, nowMs)
        if (!opened) return undefined
        const note = (isRedeemed: boolean) => {
          if (isRedeemed) this.#note({ nonce, consumedAtMs: nowMs })
          return isRedeemed
        }
        return {
          redeem() {
            const redeemed = opened.redeem()
            return redeemed instanceof Promise ? redeemed.then(note) : note(redeemed)
          },
        }
      },
    }
  }

  #note(consumed: ConsumedNonce): void {
    if (this.#waiting.length < MAX_WAITING) this.#waiting.push(consumed)
    else this.#lost++
  }

  /** @throws when the database does not take them; they wait then */
  async write(): Promise<void> {
    if (this.#lost > 0) this.#onLost(this.#lost)
    this.#lost = 0
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, MAX_BATCH)
      await this.#store.record(batch)
      this.#waiting.splice(0, batch.length)
    }
  }
}
