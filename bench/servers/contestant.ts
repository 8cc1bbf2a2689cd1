/** A server in a run: how results name it, how it is loaded, and how it is started anew and ended. */

import type { Options } from '../options.ts'

/** A server as it stands in results. */
export interface Subject {
  name: string
  /** Of a build of this project. */
  commit: string | undefined
  /** What a reader has to know to read its figures right, and the subject of a build's commit; empty when nothing. */
  note: string
  /** When it breaks, there is nothing to go on with; another project's is reported as broken and the others go on. */
  isOurs: boolean
}

export interface Contestant {
  subject: Subject
  /** Those of the run, for this server. */
  options: Options
  /** Starts it anew after it broke; absent when it is not ours to start. @throws Error */
  restart?(): Promise<undefined>
  /** Why it could not be started anew. */
  down?: Error | undefined
  stop(): Promise<void>
}

/** One that the bench starts, and starts again. @throws Error when it does not start */
export async function startContestant(
  subject: Subject,
  start: () => Promise<{ options: Options; stop(): Promise<void> }>,
): Promise<Contestant> {
  let running = await start()
  const contestant: Contestant = {
    ...{ subject, options: running.options },
    async restart() {
      await running.stop()
      running = await start()
      contestant.options = running.options
      return undefined
    },
    stop: () => running.stop(),
  }
  return contestant
}
