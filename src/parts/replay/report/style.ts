/** Colours stand for outcomes; everything else is grey. Contrasts meet the requirements of axe-core, light and dark. */
export const STYLE = `
:root{color-scheme:light dark;--page:#f6f7f9;--panel:#fff;--ink:#1b212b;--dim:#59616e;--line:#e1e4e9;--grid:#eceef1;--passed:#b4bfce;--refused:#a3702a;--newly_refused:#c3271d;--spared:#2b8a57;--refused-ink:#7d5316;--newly_refused-ink:#b3261e;--spared-ink:#19693b;--limit:#1b212b}
@media (prefers-color-scheme:dark){:root{--page:#12151a;--panel:#1a1e25;--ink:#e6e9ee;--dim:#9ba4b1;--line:#2b313b;--grid:#252b34;--passed:#56606f;--refused:#c99547;--newly_refused:#f0655a;--spared:#4fb981;--refused-ink:#e0b06a;--newly_refused-ink:#ff8a80;--spared-ink:#6fce93;--limit:#e6e9ee}}
.single{--refused:var(--newly_refused);--refused-ink:var(--newly_refused-ink)}
*{box-sizing:border-box}
html{background:var(--page);color:var(--ink);font:15px/24px system-ui,-apple-system,"Segoe UI","Liberation Sans","DejaVu Sans",sans-serif;font-variant-numeric:tabular-nums}
body,h1,h2,h3,p,ul,dl,dd,figure{margin:0;padding:0}
body{max-width:1120px;margin:0 auto;padding:32px 24px 64px}
ul{list-style:none}
h1{font-size:28px;line-height:36px;font-weight:650;letter-spacing:-.01em;max-width:30em;text-wrap:balance}
h2{font-size:20px;line-height:32px;font-weight:600;margin-bottom:8px}
h3{font-size:16px;line-height:24px;font-weight:600;overflow-wrap:anywhere}
.brand{color:var(--dim);font-weight:600;margin-bottom:8px}
.source{display:flex;flex-wrap:wrap;gap:4px 32px;margin:16px 0 0;color:var(--dim)}
.source div{display:flex;gap:8px;min-width:0}
.source dd{color:var(--ink);overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(192px,1fr));gap:16px;margin:32px 0 0}
.tiles.thirds{grid-template-columns:repeat(3,1fr)}
.tile{background:var(--panel);border:1px solid var(--line);border-radius:10px;padding:16px;border-top:4px solid var(--passed)}
.tile dt{color:var(--dim)}
.tile b{display:block;font-size:28px;line-height:40px;font-weight:650;white-space:nowrap;letter-spacing:-.02em}
.tile b.pair{font-size:20px}
.tile span{color:var(--dim);font-size:13px}
.tile.newly_refused{border-top-color:var(--newly_refused)}
.tile.newly_refused b{color:var(--newly_refused-ink)}
.tile.spared{border-top-color:var(--spared)}
.tile.spared b{color:var(--spared-ink)}
.tile.refused b{color:var(--refused-ink)}
.tile.refused{border-top-color:var(--refused)}
section,article{background:var(--panel);border:1px solid var(--line);border-radius:10px;padding:24px;margin-top:24px;min-width:0}
section.rules{background:none;border:0;padding:0;border-radius:0;margin-top:40px}
section.rules article{margin-top:16px}
section.rules>h3{margin:32px 0 8px}
.legend{display:flex;flex-wrap:wrap;gap:0 24px;margin-bottom:16px;color:var(--dim)}
.legend li{display:flex;align-items:center;gap:8px}
.legend i{width:12px;height:12px;border-radius:3px}
i.passed{background:var(--passed)}i.refused{background:var(--refused)}i.newly_refused{background:var(--newly_refused)}i.spared{background:var(--spared)}
svg{display:block;width:100%;height:100%;overflow:visible}
svg .passed{fill:var(--passed)}svg .refused{fill:var(--refused)}svg .newly_refused{fill:var(--newly_refused)}svg .spared{fill:var(--spared)}
svg .over{fill:var(--refused)}
svg .grid,svg .base,svg .tick{fill:none;stroke:var(--grid);vector-effect:non-scaling-stroke}
svg .base{stroke:var(--dim)}
svg .tick{stroke:var(--limit);stroke-width:2}
svg .hover rect{fill:transparent}
svg .hover rect:hover{fill:var(--ink);fill-opacity:.09}
.plot{display:grid;grid-template-columns:auto 1fr;column-gap:8px}
.plot .area{height:200px}
.plots .plot .area{height:150px}
.detail{margin-top:8px}
.detail .plot .area{height:72px}
.detail .y span:nth-child(2){visibility:hidden}
.y{min-width:38px;display:flex;flex-direction:column;justify-content:space-between;text-align:right;color:var(--dim);font-size:12px;line-height:12px;margin:-6px 0}
.x{grid-column:2;position:relative;height:20px;color:var(--dim);font-size:12px;line-height:20px;overflow:hidden}
.x span{position:absolute;white-space:nowrap;padding-left:4px;border-left:1px solid var(--line)}
.count{margin-left:12px;color:var(--dim);font-weight:400}
.unit{color:var(--dim);font-size:13px;line-height:20px}
.limits{color:var(--dim)}
.limits b{color:var(--ink)}
.facts{display:flex;flex-wrap:wrap;gap:8px 32px;margin:12px 0 20px}
.facts b{font-size:20px;font-weight:650}
.facts span{display:block;color:var(--dim);font-size:13px;line-height:16px}
.plots{display:grid;grid-template-columns:minmax(0,3fr) minmax(0,2fr);gap:24px 40px}
figcaption{font-weight:600;margin-bottom:12px}
.bins{padding-top:20px}
.bins .area{position:relative;height:130px}
.bins b{position:absolute;transform:translateX(-50%);font-size:12px;line-height:16px;font-weight:600;white-space:nowrap;background:var(--panel);padding:0 2px;z-index:1}
.bins .x{display:flex;position:static}
.bins .x span{position:static;flex:1 1 0;text-align:center;border:0;padding:0;min-width:0}
.marker{position:absolute;top:-12px;bottom:0;border-left:2px dashed var(--limit)}
.marker span{position:absolute;top:-4px;left:4px;white-space:nowrap;font-size:12px;line-height:16px;font-weight:600;background:var(--panel);padding:0 2px}
.marker.left span{left:auto;right:4px}
.marker.before{border-left-color:var(--dim);border-left-style:dotted}
.marker.before span{color:var(--dim);top:14px;font-weight:400}
.rule-facts{display:grid;gap:4px 40px;margin-top:20px;border-top:1px solid var(--line);padding-top:16px}
.rule-facts div{display:grid;grid-template-columns:15em 1fr;gap:0 16px;min-width:0}
.rule-facts dt{color:var(--dim)}
.rule-facts .of{color:var(--dim)}
.rule-facts dd{display:flex;flex-wrap:wrap;gap:0 16px;overflow-wrap:anywhere;min-width:0}
.scroll{overflow-x:auto}
.scroll:focus-visible,summary:focus-visible{outline:2px solid var(--dim);outline-offset:2px}
table{border-collapse:collapse;width:100%}
th,td{padding:6px 16px 6px 0;text-align:left;font-weight:400;border-bottom:1px solid var(--line);vertical-align:top}
tbody tr:last-child>*{border-bottom:0}
thead th{color:var(--dim);font-size:13px;white-space:nowrap;vertical-align:bottom}
tbody th{font-weight:600;overflow-wrap:anywhere;min-width:9em}
td{overflow-wrap:anywhere}
.n{text-align:right;white-space:nowrap}
.bar{display:inline-flex;align-items:center;gap:8px;white-space:nowrap}
.bar svg{width:96px;height:8px}
.bar.wide{white-space:normal;flex-basis:100%}
.bar.wide em{font-style:normal;color:var(--dim);min-width:3.5em}
.bar.wide svg{flex:0 0 auto;width:160px;height:12px}
summary{cursor:pointer;margin-top:16px;font-weight:600}
.notes{display:grid;gap:8px;overflow-wrap:anywhere}
@media (max-width:720px){
body{padding:24px 16px 48px}
h1{font-size:22px;line-height:28px}
section,article{padding:16px}
.tiles,.tiles.thirds{grid-template-columns:1fr 1fr;gap:8px}
.tile{padding:12px}
.tile b{font-size:20px;line-height:32px}
.plots{grid-template-columns:minmax(0,1fr)}
.plot .area{height:150px}
.x span:nth-child(even){display:none}
.bins .x span:nth-child(even){display:block;visibility:hidden}
.rule-facts div{grid-template-columns:1fr}
.rule-facts{gap:8px}
thead{display:none}
tr{display:grid;grid-template-columns:1fr 1fr;gap:0 16px;padding:8px 0;border-bottom:1px solid var(--line)}
tbody tr:last-child{border:0}
tbody th,tbody td{border:0;padding:0}
tbody th{grid-column:1/-1}
td[data-name]{display:flex;justify-content:space-between;gap:8px;font-size:13px}
td[data-name]::before{content:attr(data-name);color:var(--dim);white-space:nowrap}
td[data-name=Rule],td[data-name="Share refused"],td[data-name="Busiest window"]{grid-column:1/-1}
}
@media print{body{max-width:none;padding:0}section,article,.tile{break-inside:avoid}}
`;
