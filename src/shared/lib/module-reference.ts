/** References to a JavaScript module inside a text setting (decisions 33): `./path/file.js#ExportName` or `package[#Export]`. */

export interface ModuleReference {
  /** A path that starts with `./`, `../` or `/`, or a package with perhaps a path inside it. */
  module: string
  exportName: string
}

const PATH = /^(?:\.{1,2}\/|\/)[^#]*\.(?:js|mjs|cjs)$/
const PACKAGE = /^(?:@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*(?:\/[^#\s]+)?$/i
const EXPORT_NAME = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u

/** What stands in front of `#` and behind it; `default` where there is none. Undefined when it is no reference. */
export function parseModuleReference(text: string): ModuleReference | undefined {
  const hash = text.indexOf('#')
  const module = hash === -1 ? text : text.slice(0, hash)
  const exportName = hash === -1 ? 'default' : text.slice(hash + 1)
  if (!EXPORT_NAME.test(exportName)) return undefined
  return PATH.test(module) || PACKAGE.test(module) ? { module, exportName } : undefined
}
