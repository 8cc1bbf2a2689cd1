/** Names of Python classes, which configurations of the reference server have where a module stands here. */

/** Dotted, and the last part in capitals; no package on npm is named so. */
const PYTHON = /^\w+(?:\.\w+)*\.([A-Z]\w*)$/

/** @returns the name of the class; undefined for anything else */
export function pythonClassOf(text: string): string | undefined {
  return PYTHON.exec(text)?.[1]
}
