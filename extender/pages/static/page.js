// Fetches the page again every few seconds and replaces the sections that have changed.
// Without it everything works; the page then shows the moment it was opened.
"use strict";

const seconds = Number(document.documentElement.dataset.refresh);
const PLACES = "a, button, input, summary, [tabindex]";
const sections = [...document.querySelectorAll("[data-live]")];
// As they were sent: what a person opens or copies changes the element's own HTML.
const sent = new Map(sections.map((each) => [each, each.innerHTML]));
let failed = false;

function placeOf(section, element) {
  return [...section.querySelectorAll(PLACES)].indexOf(element);
}

function replace(section, next) {
  if (sent.get(section) === next.innerHTML) {
    return;
  }
  sent.set(section, next.innerHTML);
  const place = placeOf(section, document.activeElement);
  const open = [...section.querySelectorAll("details")].map((each) => each.open);
  const scrolled = [...section.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  section.innerHTML = next.innerHTML;
  section.querySelectorAll("details").forEach((each, number) => {
    each.open = open[number] ?? each.open;
  });
  section.querySelectorAll(".scroll").forEach((each, number) => {
    each.scrollLeft = scrolled[number] ?? 0;
  });
  if (place >= 0) {
    section.querySelectorAll(PLACES)[place]?.focus({ preventScroll: true });
  }
}

function sayThatItFailed(error) {
  const told = document.createElement("p");
  told.textContent = `This page is no longer up to date: ${error.message}. It tries again every ${seconds} s.`;
  const banner = document.getElementById("banner");
  banner.replaceChildren(told);
  sent.delete(banner);
  document.body.className = "stale";
}

async function refresh() {
  if (!document.hidden) {
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok) {
        throw new Error(`the service answers ${answer.status}`);
      }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const section of sections) {
        const next = page.getElementById(section.id);
        if (next) {
          replace(section, next);
        }
      }
      document.body.className = page.body.className;
      failed = false;
    } catch (error) {
      if (!failed) {
        failed = true;
        sayThatItFailed(error);
      }
    }
  }
  setTimeout(refresh, seconds * 1000);
}

// By the selection: navigator.clipboard is there over HTTPS and on this machine only.
function copy(button) {
  const text = button.parentElement.querySelector("code");
  getSelection().selectAllChildren(text);
  button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
}

document.documentElement.classList.add("script");
document.addEventListener("click", (event) => {
  if (event.target.matches("[data-copy]")) {
    copy(event.target);
  }
});
if (sections.length) {
  setTimeout(refresh, seconds * 1000);
}
