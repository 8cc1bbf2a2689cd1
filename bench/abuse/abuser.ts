/** The abuser as the conductor sees it: a process that is started, asked what it did, and ended. */

import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { AbuserJob, AbuserReport, FromAbuser, ToAbuser } from './messages.ts'

const ENTRY = fileURLToPath(new URL('./process.js', import.meta.url))
/** A server that lets an abuser's connections hang is a good one; the attack has begun all the same. */
const READY_TIMEOUT_MS = 15_000

export interface Abuser {
  report(): Promise<AbuserReport>
  stop(): Promise<void>
}

/** @throws Error when the attack could not begin. */
export async function startAbuser(job: AbuserJob): Promise<Abuser> {
  const child = fork(ENTRY, [], { detached: true, execArgv: process.execArgv })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  // One that has just ended tells so by its exit.
  const tell = (message: ToAbuser) => child.connected && child.send(message, () => undefined)
  const heard = <Type extends FromAbuser['type']>(type: Type) =>
    new Promise<Extract<FromAbuser, { type: Type }>>((resolve, reject) => {
      child.on('message', (message: FromAbuser) => {
        if (message.type === type) resolve(message as Extract<FromAbuser, { type: Type }>)
        else if (message.type === 'failed') reject(new Error(`the abuser could not begin: ${message.reason}`))
      })
      child.once('exit', () => reject(new Error('the abuser ended early')))
    })
  const stop = async () => {
    if (child.connected) child.disconnect()
    await exited
  }
  try {
    const ready = heard('ready')
    tell({ type: 'begin', job })
    const timeout = AbortSignal.timeout(READY_TIMEOUT_MS)
    await Promise.race([ready, new Promise<void>((resolve) => timeout.addEventListener('abort', () => resolve()))])
    // Nobody waits for it any more when it was late; its end then is no surprise.
    ready.catch(() => undefined)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    async report() {
      const report = heard('report')
      tell({ type: 'report' })
      return (await report).report
    },
    stop,
  }
}
