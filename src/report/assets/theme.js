// Light, dark, or as the system says; kept as long as the page is open.
const Theme = (() => {
  function start(root) {
    const group = root.querySelector(".themes");
    if (!group) return;
    const buttons = Array.from(group.querySelectorAll("button"));
    for (const button of buttons) {
      button.addEventListener("click", () => choose(button.dataset.themeChoice, buttons));
    }
    group.hidden = false;
  }

  function choose(theme, buttons) {
    const page = document.documentElement;
    if (theme === "auto") delete page.dataset.theme;
    else page.dataset.theme = theme;
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === theme));
    }
  }

  return Object.freeze({ start });
})();
