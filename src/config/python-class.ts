/** Names of Python classes, which configurations of the reference server have where a module stands here. */

/** Dotted, and the last part in capitals; no package on npm is named so. */
const PYTHON = /^\w+(?:\.\w+)*\.([A-Z]\w*)$/

interface Place {
  /** The things that the key names. */
  things: string
  folder: string
  /** Ends the advice. */
  further: string
}

/** @returns a sentence that follows the key and says what to write; undefined for anything else */
export function pythonClassAdvice(text: string, { things, folder, further }: Place): string | undefined {
  const className = PYTHON.exec(text)?.[1]
  if (className === undefined) return undefined
  const reference = `ext:./${folder}/${className.toLowerCase()}.js#${className}`
  return `names a Python class; ${things} are JavaScript modules here, .js or .mjs: write ${reference}, ${further}`
}
