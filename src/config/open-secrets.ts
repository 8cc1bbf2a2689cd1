/** Finds secrets in a configuration file that every user of the machine can read. */

import { formatPath, type Path, type Violation } from '../shared/config-file/notice.ts'
import { isSecret } from '../shared/config-file/schema-node.ts'
import { isSection } from '../shared/config-file/sections.ts'
import { REFERENCE } from './reference.ts'

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
  const message = `is a secret, and others may read this file (mode ${permissions}); use 600 or 640, or a variable as its value`
  return secretsIn(root, [], variables).map((path) => ({ path, message }))
}

/** A key marked as secret counts once, even when it holds a section or a list. */
function secretsIn(value: unknown, path: Path, variables: ReadonlyMap<string, string>): Path[] {
  if (isSecret(REFERENCE, path)) return holdsText(value, path, variables) ? [path] : []
  return childrenOf(value, path).flatMap(([child, at]) => secretsIn(child, at, variables))
}

function holdsText(value: unknown, path: Path, variables: ReadonlyMap<string, string>): boolean {
  if (typeof value === 'string') return value !== '' && !variables.has(formatPath(path))
  return childrenOf(value, path).some(([child, at]) => holdsText(child, at, variables))
}

function childrenOf(value: unknown, path: Path): [unknown, Path][] {
  if (Array.isArray(value)) return value.map((entry, index) => [entry, [...path, index]])
  return isSection(value) ? Object.entries(value).map(([key, entry]) => [entry, [...path, key]]) : []
}
