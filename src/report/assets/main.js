// What the page does once it is there. It is complete without: whatever fails is said in its place.
const Report = (() => {
  async function start() {
    Theme.start(document);
    const header = await readReport();
    Tables.start(document, header?.trace);
    if (typeof mountViews !== "function") return;
    const devices = await Promise.all(Array.from(document.querySelectorAll(".view.timeline"), readDevice));
    if (devices.every((device) => device === null)) return;
    try {
      await mountViews(document, header, devices);
    } catch (fault) {
      say(document.querySelectorAll(".view"), `The views cannot be drawn (${fault.message}).`);
    }
  }

  async function readReport() {
    if (!document.getElementById("memlab-report")) return null;
    try {
      return (await decodeBlob("memlab-report")).header;
    } catch (fault) {
      say(document.querySelectorAll("[data-table='lines']"), `Only the first rows are here, the others cannot be read (${fault.message}).`);
      return null;
    }
  }

  // The device's events, or null where they are not in the page or cannot be read.
  async function readDevice(view) {
    const place = view.dataset.device;
    const views = document.querySelectorAll(`.view[data-device="${place}"]`);
    if (!document.getElementById(`memlab-device-${place}`)) {
      say(views, "This page holds no events of the device: there is nothing more to draw here.");
      return null;
    }
    try {
      return await decodeBlob(`memlab-device-${place}`);
    } catch (fault) {
      say(views, `The events of this device cannot be read (${fault.message}).`);
      return null;
    }
  }

  function say(places, sentence) {
    for (const place of places) {
      const said = document.createElement("p");
      said.className = "fault";
      said.textContent = sentence;
      place.append(said);
    }
  }

  return Object.freeze({ start });
})();

Report.start();
