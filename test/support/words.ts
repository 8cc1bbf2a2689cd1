/**
 * The words of a text that may have several lines: a command line, or a list of many short strings. A value is one word, or
 * a list of several. No character is an escape.
 */
export function words({ raw }: TemplateStringsArray, ...values: (string | readonly string[])[]): string[] {
  return raw.flatMap((text, index) => [...text.split(/\s+/).filter(Boolean), ...[values[index] ?? []].flat()])
}
