/** The type of a fault. */

import type { Chance } from '../random.ts'
import type { Stand } from '../stand.ts'

export interface Kind {
  /** One sentence for `--list`. */
  about: string
  /** How long it lasts, in seconds; chance chooses. */
  lasts: readonly [from: number, to: number]
  /** Why it is not possible on this machine. */
  impossible?: string | undefined
  /** What it is about may end by itself, and is started again. */
  mayEnd?: true
  /** The database goes back in time: certificates and revocations are promised nevertheless, and nothing else. */
  goesBack?: true
  begin(stand: Stand, chance: Chance): Begun | Promise<Begun>
}

export interface Begun {
  /** What it was done to. */
  target: string
  /** Makes everything whole, as far as clients notice. Recovery counts from then. */
  end(): void | Promise<void>
  /** What remains to be done before the next fault, such as a new replica. */
  repair?(): Promise<void>
}

export type Kinds = Readonly<Record<string, Kind>>
