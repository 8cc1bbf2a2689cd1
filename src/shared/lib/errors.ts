/** Texts of errors, for logs and people. */

const MEANINGS: Record<string, string> = {
  ENOENT: 'there is no such file',
  EACCES: 'permission denied',
  EPERM: 'not permitted',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of its path is no folder',
  EROFS: 'the file system is read-only',
  ENOSPC: 'no space is left',
  EDQUOT: 'the quota is used up',
  Z_BUF_ERROR: 'it is cut off',
  Z_DATA_ERROR: 'it is damaged',
}

/** What was thrown may be no Error. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Why a file could not be read or written: the system's code and its usual meaning, such as "ENOENT, there is no such file". */
export function describeFileError(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException
  if (code === undefined) return messageOf(error)
  return code in MEANINGS ? `${code}, ${MEANINGS[code]}` : code
}
