export const style = `
:root { color-scheme: light dark; --text: light-dark(#1d1c1a, #e8e7e2); --soft: light-dark(#5c5850, #aeaca4); --line: light-dark(#e5e2db, #2c2e2c); --back: light-dark(#fbfaf8, #131413); --side: light-dark(#f4f2ee, #0f100f); --code: light-dark(#f4f2ee, #1a1b1a); --link: light-dark(#0b6a5d, #63cab5); --tint: light-dark(#e3f0ed, #16302b); }
* { box-sizing: border-box; }
body { margin: 0; display: grid; grid-template-columns: 15rem minmax(0, 50rem); gap: 3.5rem; font: 16px/1.6 -apple-system, "Segoe UI", "Adwaita Sans", Ubuntu, Cantarell, "Noto Sans", "Liberation Sans", system-ui, sans-serif; color: var(--text); background: var(--back); }
nav { grid-column: 1; grid-row: 1; position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1.5rem 1rem 2rem; background: var(--side); border-right: 1px solid var(--line); font-size: .9rem; line-height: 1.4; }
nav h2 { margin: 1.1rem .6rem .25rem; border: 0; padding: 0; font-size: .8rem; font-weight: 600; color: var(--soft); }
nav a { display: block; padding: .22rem .6rem; border-radius: 6px; color: var(--text); text-decoration: none; }
nav a:hover { background: var(--line); }
nav a[aria-current] { background: var(--tint); color: var(--link); font-weight: 500; }
nav .home { font-weight: 600; font-size: 1rem; }
main { grid-column: 2; grid-row: 1; padding: 2rem 1.5rem 6rem 0; min-width: 0; }
.contents { display: none; }
h1, h2, h3 { line-height: 1.25; letter-spacing: -.01em; text-wrap: balance; scroll-margin-top: 1rem; }
h1 { font-size: 1.9rem; margin: 0 0 1.2rem; } h2 { font-size: 1.3rem; margin-top: 2.6rem; border-bottom: 1px solid var(--line); padding-bottom: .35rem; } h3 { font-size: 1.05rem; margin-top: 1.8rem; }
:is(h2, h3) > a[href^="#"] { text-decoration: none; opacity: 0; }
:is(h2, h3):hover > a, :is(h2, h3) > a:focus-visible { opacity: 1; }
a { color: var(--link); text-underline-offset: 2px; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 1px; }
pre { background: var(--code); border: 1px solid var(--line); padding: .8rem 1rem; overflow: auto; border-radius: 8px; font-size: .85rem; line-height: 1.55; }
code { font-family: ui-monospace, "SF Mono", "Cascadia Mono", "Liberation Mono", Menlo, monospace; background: var(--code); padding: .1em .3em; border-radius: 4px; font-size: .88em; overflow-wrap: anywhere; }
td:first-child code { overflow-wrap: break-word; }
pre code { padding: 0; font-size: inherit; overflow-wrap: normal; background: none; }
table { border-collapse: collapse; width: 100%; display: block; overflow-x: auto; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem 1rem .45rem 0; border-bottom: 1px solid var(--line); min-width: 3.5rem; }
th { font-weight: 500; color: var(--soft); white-space: nowrap; }
img { max-width: 100%; border: 1px solid var(--line); border-radius: 8px; }
@media (max-width: 860px) { body { display: block; } nav { position: static; height: auto; border: 0; border-top: 1px solid var(--line); } main { padding: 1rem 1rem 4rem; } td + td { min-width: 9rem; } .contents { display: block; padding: .8rem 1rem; border-bottom: 1px solid var(--line); } }
`;
