// Tabs by the ARIA pattern: one tab stop, arrows move, the address's #fragment remembers.

/** Calls `onShow(panelId)` for the first panel shown and each that follows. */
export function setUpTabs(list, onShow) {
  const tabs = [...list.querySelectorAll("[role=tab]")];
  const panelOf = (tab) => document.getElementById(tab.getAttribute("aria-controls"));

  function show(tab) {
    for (const other of tabs) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", String(chosen));
      other.tabIndex = chosen ? 0 : -1;
      panelOf(other).hidden = !chosen;
    }
    onShow(panelOf(tab).id);
  }

  const byFragment = () => tabs.find((tab) => `#${panelOf(tab).id}` === location.hash) ?? tabs[0];
  const choose = (tab) => {
    history.replaceState(null, "", `#${panelOf(tab).id}`);
    show(tab);
  };
  for (const [index, tab] of tabs.entries()) {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const to = event.key === "Home" ? 0 : event.key === "End" ? tabs.length - 1
        : step && (index + step + tabs.length) % tabs.length;
      if (to === undefined) return;
      event.preventDefault();
      tabs[to].focus();
      choose(tabs[to]);
    });
  }
  window.addEventListener("hashchange", () => show(byFragment()));
  show(byFragment());
}
