/**
 * Administrators and clients who act all the time: acts of all kinds, one after the other. What each needs is made long before,
 * so that a promotion loses the act and not the things.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Proofs } from '../responder/responders.ts'
import { PERMITTING } from './acts/permitting.ts'
import type { Prepare } from './acts/prepare.ts'
import { RESTRICTING } from './acts/restricting.ts'
import { World } from './acts/world.ts'
import { createAdministrator } from './administrator.ts'
import type { Incident } from './clients.ts'
import { CONSOLE } from './configuration.ts'
import type { Stand } from './stand.ts'
import { until } from './waiting.ts'

export interface Acting {
  /** Answered with success. */
  readonly done: { restricting: number; permitting: number }
  /** Answers that nobody should have to expect. */
  readonly complaints: readonly Incident[]
  /** Resolves when nothing is under way; the last act stops signing. */
  pause(): Promise<void>
  /** Resumes as a person does it, when the stop is seen. @returns what was wrong until then */
  resumeSigning(withinMs: number): Promise<Incident[]>
  resume(): void
  end(): Promise<void>
}

interface Prepared {
  effect: keyof Acting['done']
  act(): Promise<unknown>
}

const KINDS: readonly (readonly [Prepared['effect'], Prepare])[] = [
  ...Object.values(RESTRICTING).map((prepare) => ['restricting', prepare] as const),
  ...Object.values(PERMITTING).map((prepare) => ['permitting', prepare] as const),
]
const PAUSE_MS = 500
/** Time limit of one act. */
const TIMEOUT_MS = 15_000
/** Without a common divisor with the number of kinds: neighbours in the lists are no neighbours in time. */
const STEP = 7

/** @throws Error when an administrator cannot be made */
export async function startActing(stand: Stand, proofs: Proofs): Promise<Acting> {
  const [admin, second] = [await createAdministrator(stand, 'alice'), await createAdministrator(stand, 'olga')]
  const complaints: Incident[] = []
  const { directoryUrl, certificate: trusted } = stand
  const world = new World({
    consoleOrigin: new URL(CONSOLE).origin,
    admin,
    second,
    proofs,
    requests: {
      directoryUrl,
      trusted,
      timeoutMs: TIMEOUT_MS,
      onComplaint: ({ url, status, text }) =>
        status >= 500 && complaints.push({ at: Date.now(), what: `${url}: ${status} ${text}` }),
    },
  })
  const done = { restricting: 0, permitting: 0 }
  const stock: Prepared[] = []
  let step = Promise.resolve()
  let [isPaused, isOver, hasStopped] = [false, false, false]

  async function next(n: number): Promise<void> {
    const [effect, prepare] = KINDS[(n * STEP) % KINDS.length]!
    stock.push({ effect, act: await prepare(world, n) })
    if (stock.length < KINDS.length) return
    const one = stock.shift()!
    await one.act()
    done[one.effect] += 1
  }

  async function live(): Promise<void> {
    for (let n = 0; !isOver; n++) {
      // What was interrupted nobody was promised; what it had made may be gone.
      if (!isPaused) step = next(n).catch(() => undefined)
      await step
      if (isPaused || stock.length === KINDS.length - 1) await sleep(PAUSE_MS)
    }
  }
  const life = live()
  return {
    done,
    complaints,
    async pause() {
      isPaused = true
      await step
      hasStopped = (await admin.send('POST', '/signing', { stopped: true, reason: 'an exercise' })).status === 200
    },
    async resumeSigning(withinMs) {
      let isUndone = false
      const isResumed = async () => {
        await admin.signIn()
        const { signing_stopped: isStopped } = await admin.get<{ signing_stopped: boolean }>('/signing')
        if (isStopped) await admin.done('POST', '/signing', { stopped: false })
        else isUndone = hasStopped
        return true
      }
      await until('signing is resumed', isResumed, withinMs)
      return isUndone ? [{ at: Date.now(), what: 'signing went on, though it was stopped' }] : []
    },
    resume: () => (isPaused = false),
    async end() {
      isOver = true
      await life
    },
  }
}
