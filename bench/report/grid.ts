/** A table of texts, which a terminal and a page show in their own ways: the first column names the row, the others are figures. */

export interface Grid {
  columns: readonly string[]
  rows: readonly (readonly string[])[]
}
