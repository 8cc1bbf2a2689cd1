/** A server in a run: how results name it, how it is loaded, and how it is started anew and ended. */

import type { Options } from '../options.ts'

/** The description of a server in results. */
export interface Subject {
  name: string
  /** Commit of a build of this project. */
  commit: string | undefined
  /** A note that a reader of its figures needs, or the subject of a build's commit; may be empty. */
  note: string
}

export interface Contestant {
  subject: Subject
  /** Options of the run, for this server. */
  options: Options
  /** Starts it anew after it broke; absent when it is not ours to start. @throws Error */
  restart?(): Promise<void>
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
    subject,
    options: running.options,
    async restart() {
      await running.stop()
      running = await start()
      contestant.options = running.options
    },
    stop: () => running.stop(),
  }
  return contestant
}
