/** Options of a command as a table: sentence, check and default of each. What is wrong is told all at once. */

/** The command line is wrong. */
export class UsageError extends Error {
  /** A word that may be mistyped, and what it could be instead. */
  readonly meant: { word: string; known: readonly string[] } | undefined

  constructor(message: string, meant?: { word: string; known: readonly string[] }) {
    super(message)
    this.meant = meant
  }
}

export interface Option<T> {
  sentence: string
  /** @throws Error saying what the option takes */
  read(text: string): T
  fallback?: string | number
  /** A switch takes no value; several may be given more than once. */
  kind?: 'switch' | 'several'
  letter?: string
}

export type Options = Readonly<Record<string, Option<unknown>>>

/** Undefined for what was not given and has no default. */
export type Values<O extends Options> = { [K in keyof O]: O[K] extends Option<infer T> ? T : never }

/** As the parser leaves it. */
export type Raw = Readonly<Record<string, unknown>>

export const option = <T>(sentence: string, read: (text: string) => T, fallback: string | number): Option<T> => ({
  ...{ sentence, read, fallback },
})
export const optional = <T>(sentence: string, read: (text: string) => T): Option<T | undefined> => ({ sentence, read })
export const isGiven = (sentence: string): Option<boolean> => ({ sentence, read: () => true, kind: 'switch' })
export const several = <T>(sentence: string, read: (text: string) => T): Option<T[]> => ({
  ...{ sentence, read: read as (text: string) => never, kind: 'several' },
})

/** @throws UsageError naming everything that is wrong */
export function readOptions<O extends Options>(options: O, raw: Raw): Values<O> {
  const errors: string[] = []
  const values: Record<string, unknown> = {}
  for (const [name, one] of Object.entries(options)) {
    const given = raw[name] ?? one.fallback
    try {
      values[name] = readOne(one, given)
    } catch (error) {
      errors.push(
        `--${name}${['string', 'number'].includes(typeof given) && given !== '' ? ` ${given}` : ''}: ${(error as Error).message}`,
      )
    }
  }
  if (errors.length > 0) throw new UsageError(errors.join('\n'))
  return values as Values<O>
}

function readOne({ read, kind }: Option<unknown>, given: unknown): unknown {
  if (kind === 'switch') return given === true
  if (kind === 'several') return given === undefined ? [] : [given].flat().map((text) => read(String(text)))
  if (given === undefined) return undefined
  if (Array.isArray(given)) throw new Error('is given twice')
  if (typeof given === 'boolean') throw new Error('takes a value')
  return read(String(given))
}
