/** SQL files of this project as single statements. */

/** Comments, strings, quoted names and bodies of functions are one token each. Strings with backslashes are not known. */
const TOKEN = /--[^\n]*|\/\*[\s\S]*?\*\/|'[^']*'|"[^"]*"|(\$(?:[A-Za-z_]\w*)?\$)[\s\S]*?\1|\s+|[^\s;'"$/-]+|[\s\S]/g

/** @returns the statements without comments and semicolons, and with single spaces outside strings */
export function statementsIn(sql: string): string[] {
  const statements: string[] = []
  let current = ''
  for (const [token] of `${sql};`.matchAll(TOKEN)) {
    if (token === ';') {
      if (current.trim() !== '') statements.push(current.trim())
      current = ''
    } else if (/^(?:--.|\/\*|\s)/s.test(token) || token === '--') {
      if (!current.endsWith(' ')) current += ' '
    } else {
      current += token
    }
  }
  return statements
}

/** @returns the parts between the commas that are in no brackets and no strings */
export function partsOf(list: string): string[] {
  const parts: string[] = []
  let [current, depth] = ['', 0]
  for (const [token] of `${list},`.matchAll(/'[^']*'|"[^"]*"|[^'"]/g)) {
    if (token === '(') depth++
    if (token === ')') depth--
    if (token !== ',' || depth > 0) current += token
    else {
      parts.push(current.trim())
      current = ''
    }
  }
  return parts
}
