/**
 * The crypto floor: CPU of the bare signatures of one operation, with Node's own crypto, measured during the load.
 *
 * A server must at least verify its requests and sign its certificates. Clocks and neighbours change microseconds by
 * tens of percent; the ratio to a floor of the same seconds stays comparable.
 */

import { fork } from 'node:child_process'
import { generateKeyPairSync, sign, verify } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** P-256 with SHA-256: how often an operation needs each, or microseconds of CPU of one. */
export interface Crypto {
  verifications: number
  signatures: number
}

const WARM_UP = 200
const PROBE = fileURLToPath(new URL('./floor-probe.js', import.meta.url))
const ANSWER_MS = 5_000

/** Executes each primitive in turn, and adds up what that took. */
export class FloorMeter {
  readonly #run: Record<keyof Crypto, () => unknown>
  readonly #micros: Crypto = { verifications: 0, signatures: 0 }
  #executions = 0

  constructor() {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    // Sizes as on the wire: a JWS signing input, a TBSCertificate.
    const [jws, tbs] = [Buffer.alloc(420, 'a'), Buffer.alloc(450, 'c')]
    const signature = sign('sha256', jws, privateKey)
    this.#run = {
      verifications: () => verify('sha256', jws, publicKey, signature),
      signatures: () => sign('sha256', tbs, privateKey),
    }
    for (const run of Object.values(this.#run)) for (let i = 0; i < WARM_UP; i++) run()
  }

  /** CPU time, not wall time: a busy machine must not raise the floor by waiting. */
  run(executions: number): void {
    for (const primitive of ['verifications', 'signatures'] as const) {
      const before = process.cpuUsage()
      for (let i = 0; i < executions; i++) this.#run[primitive]()
      const { user, system } = process.cpuUsage(before)
      this.#micros[primitive] += user + system
    }
    this.#executions += executions
  }

  /** Undefined before the first run. */
  costs(): Crypto | undefined {
    if (this.#executions === 0) return undefined
    const { verifications, signatures } = this.#micros
    return { verifications: verifications / this.#executions, signatures: signatures / this.#executions }
  }
}

export function floorMicros(needed: Crypto, costs: Crypto): number {
  return needed.verifications * costs.verifications + needed.signatures * costs.signatures
}

/** A process that starts takes a tenth of a second of CPU, so it is started before anything is measured. */
interface FloorBeside {
  begin(): void
  /** Undefined when it had no time to measure, or cannot run here. */
  end(): Promise<Crypto | undefined>
  close(): void
}

/** Measures on the processors of a process. @param pid undefined: the server is elsewhere, and has no floor here */
export function startFloorBeside(pid: number | undefined): FloorBeside {
  if (pid === undefined) return { begin: () => undefined, end: async () => undefined, close: () => undefined }
  const processors = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '0'
  const probe = fork(PROBE, { detached: true, execPath: 'taskset', execArgv: ['-c', processors, process.execPath] })
  // Without taskset there is no floor.
  probe.on('error', () => undefined)
  return {
    begin: () => void (probe.connected && probe.send('begin')),
    async end() {
      if (!probe.connected) return undefined
      const answer = once(probe, 'message', { signal: AbortSignal.timeout(ANSWER_MS) })
      probe.send('end')
      // It may have ended meanwhile.
      const [costs] = await answer.catch(() => [undefined])
      return (costs as Crypto | null) ?? undefined
    },
    close: () => void probe.kill(),
  }
}
