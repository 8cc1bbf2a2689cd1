/** What a plan is made of. Plain data, so that it can be shown before anything is done. */

export type User = 'root' | 'chancery' | 'chancery-signer' | 'postgres'

export interface Command {
  words: readonly string[]
  as: User
  /** Secrets go here, never into the words. */
  env?: Readonly<Record<string, string>>
}

interface Rights {
  mode: number
  owner: User
  group?: User
}

export interface FileWork extends Rights {
  kind: 'file'
  path: string
  text: string
  /** Its text is not shown. */
  isSecret?: true
}

export type Work =
  | FileWork
  | { kind: 'user'; name: User; home: string; groups: readonly User[] }
  | ({ kind: 'folder'; path: string; mayBeOther: boolean } & Rights)
  /** A file of random hexadecimal digits; one that exists is kept. */
  | ({ kind: 'random'; path: string } & Rights)
  /** One that exists is kept. */
  | ({ kind: 'copy'; from: string; to: string; isMove: boolean } & Rights)
  | RunWork
  | { kind: 'restart'; unit: 'chancery' | 'chancery-signer' }
  | { kind: 'wait' }
  | { kind: 'administrator'; email: string }
  | { kind: 'credential'; kid: string; allow: readonly string[] }
  | { kind: 'test-certificate' }
  | { kind: 'last-look' }

export interface RunWork {
  kind: 'run'
  command: Command
  /** What to do when it fails; a sentence. */
  wayOut?: string
  /** What a run that was stopped may have left: put aside before another one. */
  leftovers?: readonly string[]
  /** Nothing is to be done where this file exists and is not empty, or where this command succeeds and prints something. */
  unless?: string | Command
}

export interface Step {
  title: string
  work: Work
}

/** The steps that are wanted: false stands in place of one that is not. */
export const stepsOf = (...steps: readonly (Step | false)[]): Step[] => steps.filter((one) => one !== false)

/** The signer alone may read such a file. */
export const OF_SIGNER = { mode: 0o600, owner: 'chancery-signer', group: 'chancery-signer' } as const

export interface Plan {
  steps: readonly Step[]
  /** The plan ends with a request that another CA has to sign. */
  endsWithRequest: boolean
}
