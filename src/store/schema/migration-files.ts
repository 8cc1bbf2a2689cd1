/**
 * The migrations of this release: numbered SQL files, forward only. A file that was released is never edited or renamed.
 * migrations/README.md says how one is written, and what its header may say.
 */

import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { INSTALLATION } from '../../shared/lib/program-files.ts'

export const MIGRATIONS_DIR = path.join(INSTALLATION, 'migrations')

export interface Migration {
  version: number
  name: string
}

/** The comment lines at the top of a file say this. */
interface MigrationHeader {
  /** `-- concurrently`: each statement runs alone, outside a transaction. */
  isConcurrent: boolean
  /** `-- contract: 0009`: from here on only releases that know this migration can serve. */
  contract: number | undefined
  /** `-- going back: …`: what a release without this migration does not do. */
  goingBack: string | undefined
}

export interface MigrationFile extends Migration, MigrationHeader {
  sql: string
}

export const fourDigits = (version: number): string => String(version).padStart(4, '0')

export async function listMigrations(folder = MIGRATIONS_DIR): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => /^\d{4}_\w+\.sql$/.test(name)).sort()
  return names.map((name) => ({ version: Number(name.slice(0, 4)), name }))
}

export async function readMigration(folder: string, migration: Migration): Promise<MigrationFile> {
  const sql = await readFile(path.join(folder, migration.name), 'utf8')
  return { ...migration, ...headerOf(sql), sql }
}

/** The version of the newest migration that this release knows: its place among the releases. */
export async function schemaOfRelease(folder = MIGRATIONS_DIR): Promise<number> {
  return (await listMigrations(folder)).at(-1)?.version ?? 0
}

export function headerOf(sql: string): MigrationHeader {
  const lines = sql.split('\n')
  const end = lines.findIndex((line) => !line.startsWith('--'))
  const header = end === -1 ? lines : lines.slice(0, end)
  const after = (word: string) => header.find((line) => line.startsWith(`-- ${word}: `))?.slice(word.length + 5)
  const contract = after('contract')
  return {
    isConcurrent: header.includes('-- concurrently'),
    contract: contract === undefined ? undefined : Number(contract),
    goingBack: after('going back'),
  }
}

/** Comments, strings, quoted names and bodies of functions are one token each. Strings with backslashes are not known. */
const TOKEN = /--[^\n]*|\/\*[\s\S]*?\*\/|'[^']*'|"[^"]*"|(\$(?:[A-Za-z_]\w*)?\$)[\s\S]*?\1|\s+|[^\s;'"$/-]+|[\s\S]/g

/** @returns the statements without comments and semicolons, and with single spaces outside strings */
export function statementsIn(sql: string): string[] {
  const statements: string[] = []
  let current = ''
  for (const [token] of `${sql};`.matchAll(TOKEN)) {
    if (token === ';') {
      if (current.trim() !== '') statements.push(current.trim())
      current = ''
    } else if (/^(?:--.|\/\*|\s)/s.test(token) || token === '--') {
      if (!current.endsWith(' ')) current += ' '
    } else {
      current += token
    }
  }
  return statements
}

/** @returns the parts between the commas that are in no brackets and no strings */
export function partsOf(list: string): string[] {
  const parts: string[] = []
  let [current, depth] = ['', 0]
  for (const [token] of `${list},`.matchAll(/'[^']*'|"[^"]*"|[^'"]/g)) {
    if (token === '(') depth++
    if (token === ')') depth--
    if (token !== ',' || depth > 0) current += token
    else {
      parts.push(current.trim())
      current = ''
    }
  }
  return parts
}
