/** Finds secrets in a configuration file that every user of the machine can read. */

import { isSection } from '../shared/config-file/document.ts'
import { formatPath, type Path, type Violation } from '../shared/config-file/notice.ts'
import { isSecret } from '../shared/config-file/schema-node.ts'
import { REFERENCE } from './schema.ts'

const READABLE_BY_OTHERS = 0o004
const PERMISSIONS = 0o777

/**
 * @param root values of the file, its variables replaced
 * @param variables variable behind a value, by formatted path; such a value is not in the file
 *   itself
 */
export function openSecrets(root: unknown, variables: ReadonlyMap<string, string>, mode: number): Violation[] {
  if ((mode & READABLE_BY_OTHERS) === 0) return []
  const permissions = (mode & PERMISSIONS).toString(8)
  const message = (isSure: boolean) =>
    `${isSure ? 'is' : 'looks like'} a secret, and others may read this file (mode ${permissions}); use 600 or 640, or a variable as its value`
  return secretsIn(root, [], variables).map(({ path, isSure }) => ({ path, message: message(isSure) }))
}

interface Found {
  path: Path
  /** False where only its name or its text says so. */
  isSure: boolean
}

/** A key marked as secret counts once, even when it holds a list. In the settings of a module each text is judged. */
function secretsIn(value: unknown, path: Path, variables: ReadonlyMap<string, string>): Found[] {
  if (isSecret(REFERENCE, path)) {
    if (isSection(value)) return likelySecrets(value, path, variables).map((path) => ({ path, isSure: false }))
    return holdsText(value, path, variables) ? [{ path, isSure: true }] : []
  }
  return childrenOf(value, path).flatMap(([child, at]) => secretsIn(child, at, variables))
}

/** Keys that say so; `key` alone, or at the end, but no path of a file with one. */
const SECRET_NAME = /secret|password|passphrase|token|credential|authori[sz]ation|(?:^|[_-])(?:pin|key)$|apikey$/i
/** A URL with a login, a query or a long part, or any other text that looks drawn at random. */
const SECRET_TEXT =
  /^[a-z][a-z0-9+.-]*:\/\/[^/]*@|^https?:.*\?|(?<![^/:=])(?=[\w+=-]*\d)(?=[\w+=-]*[a-z])[\w+=-]{20,}$/i

/** The settings of a module are free, and most are no secrets. */
function likelySecrets(value: unknown, path: Path, variables: ReadonlyMap<string, string>): Path[] {
  if (typeof value === 'string') {
    const isLikely = SECRET_NAME.test(nameOf(path)) || SECRET_TEXT.test(value)
    return isLikely && holdsText(value, path, variables) ? [path] : []
  }
  return childrenOf(value, path).flatMap(([child, at]) => likelySecrets(child, at, variables))
}

/** Entries of a list have the name of the list. */
const nameOf = (path: Path) => String(path.findLast((part) => typeof part === 'string') ?? '')

function holdsText(value: unknown, path: Path, variables: ReadonlyMap<string, string>): boolean {
  if (typeof value === 'string') return value !== '' && !variables.has(formatPath(path))
  return childrenOf(value, path).some(([child, at]) => holdsText(child, at, variables))
}

function childrenOf(value: unknown, path: Path): [unknown, Path][] {
  if (Array.isArray(value)) return value.map((entry, index) => [entry, [...path, index]])
  return isSection(value) ? Object.entries(value).map(([key, entry]) => [entry, [...path, key]]) : []
}
