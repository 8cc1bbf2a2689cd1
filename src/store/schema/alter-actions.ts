/** The actions of ALTER TABLE: which lock each takes (PostgreSQL 15, "ALTER TABLE"), and what would make it a long one. */

/** PostgreSQL's names, of those that occur here. */
export type LockMode = 'ACCESS EXCLUSIVE' | 'SHARE ROW EXCLUSIVE' | 'SHARE' | 'SHARE UPDATE EXCLUSIVE' | 'ROW EXCLUSIVE'

export interface Action {
  lock: LockMode
  /** `scan`: the whole table is read, and the lock keeps nobody from writing. */
  lasts: 'moment' | 'scan'
  /** Why a migration may not do this, for its author. */
  fault?: string
  /** The release before may need what is gone. */
  isContract?: true
}

const NAME = '"?\\w+"?'
const action = (pattern: string) => new RegExp(`^${pattern}`, 'i')

const ACTIONS: readonly (readonly [RegExp, Action])[] = [
  [action('ADD CONSTRAINT .* NOT VALID$'), { lock: 'ACCESS EXCLUSIVE', lasts: 'moment' }],
  [action(`ADD CONSTRAINT ${NAME} UNIQUE USING INDEX `), { lock: 'ACCESS EXCLUSIVE', lasts: 'moment' }],
  [
    action('ADD (?:CONSTRAINT|CHECK|FOREIGN|UNIQUE|PRIMARY|EXCLUDE) '),
    long('checks all rows; add it NOT VALID, or by an index'),
  ],
  [action('ADD '), { lock: 'ACCESS EXCLUSIVE', lasts: 'moment' }],
  [action('VALIDATE CONSTRAINT '), { lock: 'SHARE UPDATE EXCLUSIVE', lasts: 'scan' }],
  [action('DROP CONSTRAINT '), { lock: 'ACCESS EXCLUSIVE', lasts: 'moment' }],
  [action('DROP '), { lock: 'ACCESS EXCLUSIVE', lasts: 'moment', isContract: true }],
  [action(`ALTER (?:COLUMN )?${NAME} SET STATISTICS `), { lock: 'SHARE UPDATE EXCLUSIVE', lasts: 'moment' }],
  [
    action(`ALTER (?:COLUMN )?${NAME} (?:SET DEFAULT|DROP DEFAULT|DROP NOT NULL|SET STORAGE)`),
    { lock: 'ACCESS EXCLUSIVE', lasts: 'moment' },
  ],
  [action(`ALTER (?:COLUMN )?${NAME} SET NOT NULL`), long('reads all rows; validate a CHECK in its place')],
  [action(`ALTER (?:COLUMN )?${NAME} (?:SET DATA )?TYPE `), long('writes all rows again; add a column in its place')],
  [action('SET \\(|RESET \\('), { lock: 'SHARE UPDATE EXCLUSIVE', lasts: 'moment' }],
  [action('(?:ENABLE|DISABLE) TRIGGER '), { lock: 'SHARE ROW EXCLUSIVE', lasts: 'moment' }],
  [action('RENAME '), long('takes a name away that the release before uses; add a column in its place')],
]

function long(fault: string): Action {
  return { lock: 'ACCESS EXCLUSIVE', lasts: 'moment', fault }
}

/** @param text without comments, as after `ALTER TABLE name`; undefined for an action that is not known */
export function alterAction(text: string): Action | undefined {
  const found = ACTIONS.find(([pattern]) => pattern.test(text))?.[1]
  if (!found) return undefined
  const fault = found.fault ?? (isColumn(text) ? columnFault(text) : undefined)
  // A foreign key locks both tables against writers alone.
  const lock = /^ADD CONSTRAINT \S+ FOREIGN KEY /i.test(text) ? 'SHARE ROW EXCLUSIVE' : found.lock
  return { ...found, lock, ...(fault !== undefined && { fault }) }
}

const isColumn = (text: string) => /^ADD (?!CONSTRAINT |CHECK |FOREIGN |UNIQUE |PRIMARY |EXCLUDE )/i.test(text)

/** A constant, or a time that is computed once for all rows. */
const CONSTANT =
  /\bDEFAULT (?:-?[\d.]+|'[^']*'(?:::[\w[\]]+)?|true|false|null|now\(\)|current_timestamp)(?= NOT NULL$|$)/i

function columnFault(text: string): string | undefined {
  if (/\b(?:UNIQUE|PRIMARY KEY)\b/i.test(text)) return 'builds an index under the lock; build it concurrently'
  if (/\b(?:REFERENCES|CHECK)\b/i.test(text)) return 'checks all rows; add the constraint NOT VALID'
  if (/\bGENERATED\b|\b(?:small|big)?serial\b/i.test(text)) return 'writes all rows again'
  const hasDefault = /\bDEFAULT\b/i.test(text)
  if (hasDefault && !CONSTANT.test(text)) return 'may write all rows again: its default is not a constant'
  if (/\bNOT NULL\b/i.test(text) && !hasDefault)
    return 'is NOT NULL without a default, which the release before does not write'
  return undefined
}
