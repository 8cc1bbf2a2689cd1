/** A fault of an installation, as an operator or time makes it, and what `chancery doctor` has to say about it. */

import path from 'node:path'
import type { Script } from '../../workers/scripted-dns.ts'
import type { Changes, Stand } from '../stand.ts'

type Undo = () => unknown

export interface Fault {
  name: string
  /** Of the check that finds it. */
  id: string
  /** What the mend names: a key, a file or a command. */
  mend: RegExp
  /** Changes a copy of the configuration, which the doctor is given. */
  config?: Changes | ((stand: Stand) => Changes | Promise<Changes>)
  signer?: Changes | ((stand: Stand) => Changes)
  proxy?: (text: string, stand: Stand) => string | Promise<string>
  sql?: { plant: string[]; undo: string[] }
  dns?: Script
  plant?: (stand: Stand) => Undo | Promise<Undo>
  args?: readonly string[]
  prefix?: readonly string[]
  /** Other checks see nothing beside it, and say so. */
  blinds?: true
}

export const at = (stand: Stand, name: string) => path.join(stand.folder, name)
