/** The type of a fault. */

import type { Finding } from '../finding.ts'
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
  /** Acts end right before it does: what is under way nobody was promised. */
  promotes?: true
  begin(stand: Stand, chance: Chance): Begun | Promise<Begun>
}

export interface Begun {
  /** The part or parts that it was done to. */
  target: string
  /** Makes everything whole, as far as clients notice. Recovery counts from then. */
  end(): void | Promise<void>
  /** After recovery, while nobody acts. */
  check?(withinMs: number): Promise<Checked>
  /** Does the rest before the next fault, such as making a new replica. */
  repair?(): Promise<void>
}

export interface Checked {
  findings: Finding[]
  /** Restrictions that a promotion had ended and that are in force again. */
  restored?: number
  /** Entries and accounts that a promotion has lost, and that are listed. */
  told?: number
}

export type Kinds = Readonly<Record<string, Kind>>
