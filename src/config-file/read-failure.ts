/** Why a file could not be read, for people. */

const SENTENCES: Record<string, string> = {
  ENOENT: ', there is no such file',
  EACCES: ', permission denied',
  EISDIR: ', it is a folder',
}

/** "cannot be read: ENOENT, there is no such file" */
export function describeReadFailure(error: unknown): string {
  const { code = 'unknown error' } = error as NodeJS.ErrnoException
  return `cannot be read: ${code}${SENTENCES[code] ?? ''}`
}
