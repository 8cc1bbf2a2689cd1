/** How a report looks, in light and in dark. Nothing is fetched: system fonts, and colours as variables. */

export const STYLE = `
:root {
  color-scheme: light dark;
  --page: #fbfbfa; --card: #ffffff; --ink: #1c1d21; --soft: #5d6069; --rule: #e3e3e0; --band: #f3efe2; --stripe: #f6f6f4;
  --good: #13795b; --bad: #b3261e;
  --c0: #2f5fd0; --c1: #d9730d; --c2: #1f8a70; --c3: #a3359c; --c4: #c2352b; --c5: #6b7280; --c6: #7c5cd6; --c7: #a88400;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #131417; --card: #1b1d21; --ink: #ececef; --soft: #a2a6b0; --rule: #33363d; --band: #2a2820; --stripe: #202227;
    --good: #55c79f; --bad: #ff8a80;
    --c0: #7da2ff; --c1: #ffab5c; --c2: #55c7a8; --c3: #e38add; --c4: #ff8a80; --c5: #a2a8b4; --c6: #b39dff; --c7: #e0bd4a;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 40px 24px 80px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 6px; letter-spacing: -0.01em; }
h2 { font-size: 22px; margin: 56px 0 12px; padding-top: 24px; border-top: 1px solid var(--rule); }
h3 { font-size: 16px; margin: 28px 0 8px; }
p { margin: 6px 0; max-width: 75ch; }
.lead, .note, dt { color: var(--soft); }
.note { font-size: 13.5px; }
code { font: 13.5px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 20px; margin: 20px 0; font-size: 14.5px; }
dd { margin: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(165px, 1fr)); gap: 12px; margin: 18px 0; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 12px 16px; }
.tile b { display: block; font-size: 25px; line-height: 1.25; font-weight: 650; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13.5px; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 16px; margin: 16px 0; }
figure { container-type: inline-size; margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 14px 16px 10px; min-width: 0; }
figcaption { font-weight: 600; font-size: 15px; margin-bottom: 4px; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; list-style: none; margin: 0 0 4px; padding: 0; font-size: 13px; color: var(--soft); }
.key { display: inline-block; width: 16px; height: 0; border-top: 3px solid; margin-right: 6px; vertical-align: middle; }
.key.dashed { border-top-style: dashed; }
svg { display: block; width: 100%; max-width: 680px; height: auto; overflow: visible; }
svg text { font-family: inherit; fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
svg .row-name, svg .value { fill: var(--ink); }
/* A plot that has to shrink keeps letters that can be read. */
@container (max-width: 400px) { svg text { font-size: 16px; } }
svg .goal-name, svg .row-name, svg .value { stroke: var(--card); stroke-width: 4px; paint-order: stroke; }
.bars { display: grid; grid-template-columns: fit-content(45%) 1fr; gap: 6px 12px; margin: 10px 0; padding: 0; list-style: none; font-size: 13px; line-height: 1.35; }
.bars li { display: contents; }
.track { display: flex; align-items: center; padding-right: 4.5em; }
.bar { flex: none; height: 16px; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.bars b { flex: none; width: 0; padding-left: 7px; font-weight: 400; white-space: nowrap; font-variant-numeric: tabular-nums; }
.grid { stroke: var(--rule); stroke-width: 1; }
.axis, .mark { stroke: var(--soft); stroke-width: 1; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.line.dashed { stroke-dasharray: 6 4; }
.line.thin { stroke-width: 1.4; }
.area { stroke: var(--card); stroke-width: 1; }
.band { fill: var(--band); }
.goal { stroke: var(--good); stroke-width: 1.5; stroke-dasharray: 2 4; }
svg .goal-name { fill: var(--good); }
.whisker { stroke-width: 3; stroke-linecap: round; opacity: 0.45; }
.hint { fill: transparent; }
.hint:hover { fill: var(--ink); opacity: 0.07; }
${Array.from({ length: 8 }, (_, color) => `.line.c${color}, .whisker.c${color} { stroke: var(--c${color}); } .area.c${color}, .dot.c${color} { fill: var(--c${color}); } .bar.c${color} { background: var(--c${color}); } .key.c${color} { border-color: var(--c${color}); }`).join('\n')}
.scroll { overflow-x: auto; margin: 10px 0; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 10px; border-bottom: 1px solid var(--rule); vertical-align: top; }
tr > :first-child { padding-left: 0; }
thead th { color: var(--soft); font-weight: 500; vertical-align: bottom; }
tbody th { font-weight: 400; min-width: 9em; }
.number { text-align: right; white-space: nowrap; }
td:not(.number) { min-width: 14em; }
tbody tr:hover { background: var(--stripe); }
.good { color: var(--good); } .bad { color: var(--bad); }
small { color: var(--soft); font-size: 12.5px; }
details { margin: 14px 0; }
summary { cursor: pointer; color: var(--soft); }
@media print {
  :root { --page: #ffffff; }
  main { padding: 0; }
  h2 { break-after: avoid; }
  h2, .plots { margin-top: 24px; }
  .plots { display: block; columns: 2; }
  figure { margin-bottom: 16px; }
  figure, .tile, tr { break-inside: avoid; }
  figure:has(.bars) { break-inside: auto; }
  .scroll { overflow: visible; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
`
