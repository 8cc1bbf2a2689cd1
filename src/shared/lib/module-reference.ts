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
 * The argument of `import`: the URL of a file, from the working directory, or the name of a package beside the program.
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

/** Dotted, and the last part in capitals; no package on npm is named so. */
const PYTHON_CLASS = /^\w+(?:\.\w+)*\.([A-Z]\w*)$/

interface ModulePlace {
  /** The things that the key names. */
  things: string
  folder: string
  /** Ends the advice. */
  further: string
}

/** @returns a sentence that follows the key and says what to write; undefined for anything else */
export function pythonClassAdvice(text: string, { things, folder, further }: ModulePlace): string | undefined {
  const className = PYTHON_CLASS.exec(text)?.[1]
  if (className === undefined) return undefined
  const reference = `ext:./${folder}/${className.toLowerCase()}.js#${className}`
  return `names a Python class; ${things} are JavaScript modules here, .js or .mjs: write ${reference}, ${further}`
}
