/** The steps of a plan. They are plain data, so that they can be shown before anything is done. */

import { type Owner, PATHS, type Place, SERVICE, type SIGNER } from '../../installation/places.ts'
import type { Facts } from '../facts.ts'

export interface Command {
  words: readonly string[]
  as: Owner | 'postgres'
  /** Secrets go here, never into the words. */
  env?: Readonly<Record<string, string>>
}

export interface FileWork {
  kind: 'file'
  at: Place
  text: string
  /** Its text is not shown. */
  isSecret?: true
}

export type Work =
  | FileWork
  | { kind: 'user'; name: Owner; home: string; groups: readonly Owner[] }
  | { kind: 'folder'; at: Place; mayBeOther: boolean }
  /** A file of random hexadecimal digits; one that exists is kept. */
  | { kind: 'random'; at: Place }
  /** A file that exists is kept. */
  | { kind: 'copy'; from: string; to: Place; isMove: boolean }
  | RunWork
  | { kind: 'restart'; unit: typeof SERVICE | typeof SIGNER }
  | { kind: 'wait' }
  | { kind: 'administrator'; email: string }
  | { kind: 'credential'; kid: string; allow: readonly string[] }
  | { kind: 'test-certificate' }
  | { kind: 'last-look' }

export interface RunWork {
  kind: 'run'
  command: Command
  /** A sentence that says what to do when it fails. */
  wayOut?: string
  /** Files that a stopped run may have left: they are put aside before another one. */
  leftovers?: readonly string[]
  /** Nothing is to be done where this file exists and is not empty, or where this command succeeds and prints something. */
  unless?: string | Command
}

export interface Step {
  title: string
  work: Work
}

export interface Plan {
  steps: readonly Step[]
  /** The plan ends with a request that another CA has to sign. */
  endsWithRequest: boolean
}

/** The steps that are wanted: false stands in place of one that is not. */
export const stepsOf = (...steps: readonly (Step | false)[]): Step[] => steps.filter((one) => one !== false)

/** PostgreSQL's socket admits the user of the service, so the commands run as that user. */
export const serviceCommand = ({ programs }: Facts, ...words: string[]): Command => ({
  words: [...programs.service, '-c', PATHS.config, ...words],
  as: SERVICE,
})
