/** Files that a run writes in its end: tried before it starts, and a failure then names the option and spares the other files. */

import { accessSync, closeSync, constants, openSync, rmSync, statSync, writeFileSync } from 'node:fs'

/** Leaves things as they are. @returns why a file cannot be written; undefined when it can. */
export function whyNotWritable(file: string): string | undefined {
  try {
    const found = statSync(file, { throwIfNoEntry: false })
    if (found === undefined) {
      closeSync(openSync(file, 'wx'))
      rmSync(file)
    } else if (found.isDirectory()) return 'is a directory'
    // A pipe would be opened only when somebody reads it.
    else if (found.isFile()) closeSync(openSync(file, 'r+'))
    else accessSync(file, constants.W_OK)
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

/** Undefined where nobody asked for it. */
export interface OutputFiles {
  jsonFile: string | undefined
  htmlFile: string | undefined
}

/** @returns whether it was written or not asked for; says on standard error when it was not. */
export function writeOutput(flag: string, file: string | undefined, content: () => string): boolean {
  if (file === undefined) return true
  try {
    writeFileSync(file, content())
    return true
  } catch (error) {
    process.stderr.write(`--${flag} ${file}: not written: ${(error as Error).message}\n`)
    return false
  }
}
