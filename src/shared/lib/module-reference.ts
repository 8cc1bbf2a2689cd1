/**
 * References to a JavaScript module in a text setting: `./path/file.js#ExportName` or
 * `package[#Export]` (docs/decisions/module-references.md).
 */

import path from 'node:path'
import { pathToFileURL } from 'node:url'

export interface ModuleReference {
  /** A path that starts with `./`, `../` or `/`, or a package with an optional path inside it. */
  module: string
  exportName: string
}

const PATH = /^(?:\.{1,2}\/|\/)[^#]*\.(?:js|mjs|cjs)$/
const PACKAGE = /^(?:@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*(?:\/[^#\s]+)?$/i
const EXPORT_NAME = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u

/**
 * The argument of `import`: the URL of a file, from the working directory, or the name of a package
 * beside the program.
 */
export function urlOfModule({ module }: ModuleReference): string {
  return /^[./]/.test(module) ? pathToFileURL(path.resolve(module)).href : module
}

/** Splits at `#`; the export is `default` without one. Undefined when the text is no reference. */
export function parseModuleReference(text: string): ModuleReference | undefined {
  const hash = text.indexOf('#')
  const module = hash === -1 ? text : text.slice(0, hash)
  const exportName = hash === -1 ? 'default' : text.slice(hash + 1)
  if (!EXPORT_NAME.test(exportName)) return undefined
  return PATH.test(module) || PACKAGE.test(module) ? { module, exportName } : undefined
}
