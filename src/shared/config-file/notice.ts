/** An error or a warning about a place in a configuration file, with path and line. */

export type Path = readonly (string | number)[]

export interface Violation {
  path: Path
  message: string
}

/** `path` is empty for the file as a whole. `line` counts from 1 and is absent without a place. */
export interface ConfigNotice {
  path: string
  line?: number
  message: string
}

export type ConfigError = ConfigNotice
export type ConfigWarning = ConfigNotice

/** `hooks.registered[0].class` */
export function formatPath(path: Path): string {
  return path.reduce<string>(
    (text, part) => (typeof part === 'number' ? `${text}[${part}]` : text === '' ? part : `${text}.${part}`),
    '',
  )
}

/** The inverse of `formatPath` for keys without dots; rules name their places in this form. */
export function splitPath(path: string): Path {
  if (path === '') return []
  return path
    .replaceAll(/\[(\d+)\]/g, '.#$1')
    .split('.')
    .map((part) => (/^#\d+$/.test(part) ? Number(part.slice(1)) : part))
}

/** One line: "server.port (line 4): is 70000; must be a whole number from 1 to 65535". */
export function formatNotice({ path, line, message }: ConfigNotice): string {
  const place = line === undefined ? path : `${path || 'the file'} (line ${line})`
  return place === '' ? message : `${place}: ${message}`
}

/** One line per error, in the order given. */
export const formatErrors = (errors: readonly ConfigNotice[]): string => errors.map(formatNotice).join('\n')
