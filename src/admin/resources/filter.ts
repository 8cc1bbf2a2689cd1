/** How a filter of a list is described. Endpoint, command line and page are made from it, so it knows none of their libraries. */

/** The kinds of values, as they are once they are read. */
interface Values {
  uuid: string
  serial: string
  serials: string[]
  /** SHA-256 in hexadecimal. */
  sha256: string
  /** A name of certificates. */
  name: string
  line: string
  word: string
  /** It may be empty. */
  text: string
  tag: string
  flag: boolean
  time: Date
}

/** The values that a filter may have, with their words on a page. */
export type Choices = Readonly<Record<string, string>>

export interface Filter {
  kind: keyof Values | Choices
  /** Its name on a page. */
  label: string
  /** A sentence for the manual and for the help of the command line. */
  says: string
  /** Characters of a line, word or text; 255 where it is missing. */
  most?: number
  /** The words of a flag's two values. */
  words?: Choices
  /** Shown in its empty field. */
  example?: string
  /** A page offers it above the list; a text names its field otherwise than the filter. */
  field?: true | string
}

export type Filters = Readonly<Record<string, Filter>>

type Kind<F extends Filter> = F['kind'] extends keyof Values ? F['kind'] : 'choice'
type ValueOf<F extends Filter> = F['kind'] extends keyof Values ? Values[F['kind']] : keyof F['kind'] & string

/** The values of a query. */
export type FilterValues<F extends Filters> = { [K in keyof F]?: ValueOf<F[K]> | undefined }
/** The same as JSON keeps them: a time is a text. */
export type FilterTexts<F extends Filters> = {
  [K in keyof F]?: (Kind<F[K]> extends 'time' ? string : ValueOf<F[K]>) | undefined
}

export const isChoice = (kind: Filter['kind']): kind is Choices => typeof kind === 'object'

/** The values of a choice, in the order of its words. */
export const valuesOf = <C extends Choices>(choices: C) => Object.keys(choices) as (keyof C & string)[]

export const pick = <F extends Filters, const K extends keyof F>(filters: F, names: readonly K[]) =>
  Object.fromEntries(names.map((name) => [name, filters[name]])) as unknown as Pick<F, K>
