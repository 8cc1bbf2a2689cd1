/** A server that takes part in a run: how results name it, how it is loaded, and how it is started anew and ended. */

import type { Options } from '../options/options.ts'
import type { Server } from './chancery.ts'

/** A server as it stands in results. */
export interface Subject {
  name: string
  /** Of a build of this project. */
  commit: string | undefined
  /** What a reader has to know to read its figures right; empty when nothing. */
  note: string
  /** When it breaks, there is nothing to go on with; another project's is reported as broken and the others go on. */
  isOurs: boolean
}

export interface Contestant {
  subject: Subject
  /** Those of the run, for this server. */
  options: Options
  /** What the bench has started of this project. */
  server?: Server
  /** Starts it anew after it broke; absent when it is not ours to start. @throws Error */
  restart?(): Promise<void>
  stop(): Promise<void>
}
