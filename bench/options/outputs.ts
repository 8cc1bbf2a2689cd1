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

/** A file that was not asked for has no content to be written. */
export interface Output {
  flag: string
  file: string | undefined
  content: () => string
}

/** @returns whether all were written; says on standard error which were not. */
export function writeOutputs(outputs: readonly Output[]): boolean {
  const failed = outputs.filter(({ flag, file, content }) => {
    if (file === undefined) return false
    try {
      writeFileSync(file, content())
      return false
    } catch (error) {
      process.stderr.write(`--${flag} ${file}: not written: ${(error as Error).message}\n`)
      return true
    }
  })
  return failed.length === 0
}
